#pragma once

// How the page of `kubectl compilecache report` looks: on a desk, on a telephone, on paper, by day
// and by night. Colours of shares stand once, for text and drawings.

namespace compilecache::cli {

inline constexpr char kReportStyle[] = R"(
:root{color-scheme:light dark;--back:#fff;--text:#1d2733;--soft:#5a6675;--line:#dde2e8;--box:#f5f7f9;
--good:#1a7f4b;--bad:#d9663f;--a1:#0f5b8f;--a2:#3d8fc4;--a3:#8fc1e3;--a4:#a9aeb5;--a5:#6d6d6d}
@media (prefers-color-scheme:dark){:root{--back:#14181d;--text:#e4e8ed;--soft:#9aa6b3;--line:#333b45;
--box:#1d232a;--good:#3aa873;--bad:#d9744f}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem;overflow-wrap:anywhere}
h1{margin:0;font-size:1.6rem}
h2{margin:2.2rem 0 .6rem;font-size:1.25rem}
h3{margin:1.6rem 0 .5rem;font-size:1rem}
ul{margin:.5rem 0;padding-left:1.2rem}
p{margin:.3rem 0}
.soft{color:var(--soft);font-size:.875rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:.75rem;margin:1.25rem 0 0;padding:0;
list-style:none}
.tiles li,.card{background:var(--box);border-radius:.5rem;padding:.8rem 1rem}
.tiles b{display:block;font-size:1.5rem;line-height:1.25}
.card{margin:.6rem 0}
.bad{color:var(--bad)}
code{font-size:.85em}
.chart{display:grid;grid-template-columns:auto minmax(0,1fr);column-gap:.5rem}
.chart .scale,.chart .days{display:flex;justify-content:space-between;color:var(--soft);font-size:.75rem}
.chart .scale{flex-direction:column;text-align:right}
.chart .days{grid-column:2}
.chart svg{display:block;width:100%;height:9rem;border-bottom:1px solid var(--line)}
.start{display:grid;grid-template-columns:3rem minmax(0,1fr) 10rem;align-items:center;gap:.6rem;margin:.3rem 0}
.start svg{display:block;width:100%;height:.9rem}
.bar{display:block;width:100%;height:.8rem;margin:.4rem 0}
.warm{fill:var(--good)}.cold{fill:var(--bad)}
.age1{fill:var(--a1)}.age2{fill:var(--a2)}.age3{fill:var(--a3)}.age4{fill:var(--a4)}.age5{fill:var(--a5)}
.key{display:inline-block;width:.7rem;height:.7rem;margin-right:.35rem}
.keys{display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:0;padding:0;list-style:none;font-size:.875rem}
table{width:100%;border-collapse:collapse;font-size:.9rem}
th,td{padding:.4rem .5rem .4rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:normal}
.num{text-align:right;white-space:nowrap}
@media (max-width:48rem){
thead{display:none}
tbody,tr,td{display:block}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td,td.num{display:flex;justify-content:space-between;gap:1rem;padding:.1rem 0;border:0;text-align:right;white-space:normal}
td::before{content:attr(data-label);flex:none;color:var(--soft)}
td:first-child{font-weight:bold;text-align:left}
td:first-child::before{content:none}
}
)";

}  // namespace compilecache::cli

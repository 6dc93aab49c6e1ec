#!/usr/bin/env python3
"""Writes the table and the chart of what the cache gains from what tests/engines measured (the table of docs/reference/engines.md).

    docs/theme/measured.py            writes docs/assets/measured.svg, and the table in each page that has the two marks
    docs/theme/measured.py --check    fails where a file is not what would be written
"""

import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
SOURCE = TREE / "docs/reference/engines.md"
CHART = TREE / "docs/assets/measured.svg"
PAGES = [TREE / "README.md", *sorted((TREE / "docs").rglob("*.md"))]
BEGIN, END = "<!-- measured: docs/theme/measured.py writes this table -->\n", "<!-- end of measured -->"
# What people run most, under the names that they know.
SHOWN = {"vllm": "vLLM", "sglang": "SGLang", "torch": "PyTorch", "jax": "JAX"}
BARS = (("cold", "cold start"), ("kept", "cache kept on the disk"), ("loaded", "loaded by compile-cache"))


def measured():
    """The newest release of each engine that is shown, as the table has it: the page lists the newest first."""
    rows = {}
    for line in SOURCE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in SHOWN and len(cells) == 14:
            seconds = [float(cell.removesuffix(" s")) for cell in cells[2:5]]
            date, machine = cells[13].split(", ", 1)
            rows.setdefault(cells[0], {"name": f"{SHOWN[cells[0]]} {cells[1]}", "cold": seconds[0], "kept": seconds[1], "loaded": seconds[2],
                                       "date": date, "machine": machine})
    return [rows[name] for name in SHOWN if name in rows]


def table(rows):
    lines = ["| engine | cold start | cache kept on the disk | loaded by compile-cache | measured |", "|---|---|---|---|---|"]
    lines += [f"| {one['name']} | {one['cold']:.1f} s | {one['kept']:.1f} s | **{one['loaded']:.1f} s** | {one['date']}, {one['machine']} |"
              for one in rows]
    return "\n".join(lines) + "\n"


STYLE = """
    text { font: 13px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px; fill: #57606a }
    .cold { fill: #8c959f } .kept { fill: #54aeff } .loaded { fill: #2da44e }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .small { fill: #9198a1 } .cold { fill: #656c76 } .kept { fill: #388bfd } .loaded { fill: #3fb950 }
    }
"""
WIDTH, LEFT, BAR, GAP, TOP = 720, 130, 14, 16, 34


def chart(rows):
    scale = (WIDTH - LEFT - 60) / max(one["cold"] for one in rows)
    parts, x = [], LEFT
    for kind, words in BARS:
        parts.append(f'<rect class="{kind}" x="{x}" y="8" width="12" height="12" rx="2"/><text class="small" x="{x + 17}" y="18">{words}</text>')
        x += 40 + 6 * len(words)
    y = TOP
    for one in rows:
        parts.append(f'<text x="{LEFT - 10}" y="{y + 1.5 * BAR + 5}" text-anchor="end">{one["name"]}</text>')
        for kind, _ in BARS:
            width = max(2, round(one[kind] * scale, 1))
            parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{width}" height="{BAR - 2}" rx="2"/>'
                         f'<text class="small" x="{LEFT + width + 6}" y="{y + 10}">{one[kind]:.1f} s</text>')
            y += BAR
        y += GAP
    height = y
    told = "; ".join(f"{one['name']}: {one['cold']:.1f}, {one['kept']:.1f} and {one['loaded']:.1f} seconds" for one in rows)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="Seconds of '
            f'compiling: {told}">\n<style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n")


def wanted():
    """Each file with what it should be."""
    rows = measured()
    files = {CHART: chart(rows)}
    for page in PAGES:
        text = page.read_text()
        if BEGIN in text:
            files[page] = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: BEGIN + table(rows) + END, text, flags=re.DOTALL)
    return files


def main():
    check, stale = sys.argv[1:] == ["--check"], []
    for file, text in wanted().items():
        if not file.exists() or file.read_text() != text:
            stale.append(str(file.relative_to(TREE)))
            if not check:
                file.write_text(text)
    if check and stale:
        sys.exit(f"not what docs/reference/engines.md measured: {', '.join(stale)}; run docs/theme/measured.py")


if __name__ == "__main__":
    main()

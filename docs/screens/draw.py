#!/usr/bin/env python3
"""Draws what the programs print as pictures of a terminal, for the manual: SVG that fits light and dark pages. README.md here.

    docs/screens/draw.py            writes the pictures, screen-*.svg of the assets
    docs/screens/draw.py --check    fails where a picture is not what would be drawn, or a line does not fit
"""
import html
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1]
FONT, STEP, LINE = 13, 7.83, 18  # a character of the usual monospace fonts is 0.602 of the font's size wide
COLUMNS = 100                    # of a terminal; the programs wrap there
LEFT, TOP, BAR = 16, 12, 28

STYLE = f"""
    text {{ font: {FONT}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }}
    .back {{ fill: #f6f8fa; stroke: #d1d9e0 }} .bar {{ fill: #e6eaef }} .dot {{ fill: #b6bfc8 }}
    .title {{ fill: #59636e }} .prompt {{ fill: #59636e }} .typed {{ font-weight: bold }}
    .head {{ fill: #59636e }} .label {{ fill: #0550ae }} .good {{ fill: #1a7f37 }} .bad {{ fill: #bc4c00 }}
    @media (prefers-color-scheme: dark) {{
      text {{ fill: #e6edf3 }} .back {{ fill: #151b23; stroke: #3d444d }} .bar {{ fill: #212830 }} .dot {{ fill: #656c76 }}
      .title, .prompt, .head {{ fill: #9198a1 }} .label {{ fill: #79c0ff }} .good {{ fill: #3fb950 }} .bad {{ fill: #f0883e }}
    }}
"""
# Words that a reader looks for first.
GOOD, BAD = re.compile(r"\b(True|full|exact)\b"), re.compile(r"\b(False|not ready|none|wrong|differs|change|cold|failed)\b")


def block_of(page, begins):
    """The first block of a page, fenced or indented, that begins so."""
    lines = (DOCS / page).read_text().splitlines()
    for place, line in enumerate(lines):
        indent = "    " if line.startswith("    ") else ""
        if line.removeprefix(indent).startswith(begins):
            block = []
            for one in lines[place:]:
                if one.startswith("```") or (indent and not one.startswith(indent)):
                    return block
                block.append(one.removeprefix(indent))
            return block
    raise SystemExit(f"draw.py: {page} has no block that begins with {begins}")


def screens():
    """Each picture: the command, and what it printed."""
    columns = block_of("reference/columns.md", "$ kubectl get cc")
    return {
        "get": (columns[0].removeprefix("$ "), columns[1:]),
        "status": ("kubectl compilecache status llama -n ml", (DOCS / "screens/status.txt").read_text().splitlines()),
        "explain": ("kubectl compilecache explain web-6d9f7c5b8-x2x7k -n ml", block_of("troubleshoot/still-slow.md", "pod       ml/web-")),
    }


def coloured(text):
    """A piece of a line in pieces with their classes."""
    pieces, last = [], 0
    found = sorted([(m.span(), "good") for m in GOOD.finditer(text)] + [(m.span(), "bad") for m in BAD.finditer(text)])
    for (begin, end), kind in found:
        if begin >= last:
            pieces += [(text[last:begin], ""), (text[begin:end], kind)]
            last = end
    return [piece for piece in [*pieces, (text[last:], "")] if piece[0]]


def pieces_of(line):
    label = re.match(r"[a-z]+ {2,}", line)
    if line.isupper() or re.match(r" *NAME +[A-Z]", line):
        return [(line, "head")]
    if label:
        kind = "bad" if label[0].strip() in ("wrong", "differs", "change", "cold") else "label"
        return [(label[0], kind), *coloured(line[len(label[0]):])]
    return coloured(line)


def drawn(line, y):
    parts, x = [], LEFT
    for text, kind in pieces_of(line) if isinstance(line, str) else line:
        stripped = text.lstrip(" ")
        begin = x + STEP * (len(text) - len(stripped))
        if stripped:
            named = f' class="{kind}"' if kind else ""
            # Its width is said, so that columns stand below each other in every font.
            parts.append(f'<text{named} x="{begin:.1f}" y="{y}" textLength="{STEP * len(stripped.rstrip()):.1f}">{html.escape(stripped.rstrip())}</text>')
        x += STEP * len(text)
    return "".join(parts)


def picture(command, lines):
    lines = [line.rstrip() for line in lines]
    widest = max(len(line) for line in [f"$ {command}", *lines])
    if widest > COLUMNS + 25:
        raise SystemExit(f"draw.py: a line of {command} has {widest} characters")
    width, height = round(2 * LEFT + STEP * max(widest, 60)), BAR + 2 * TOP + LINE * (len(lines) + 1)
    body = [f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            f'<path class="bar" d="M1 {BAR} V8 a7 7 0 0 1 7 -7 H{width - 8} a7 7 0 0 1 7 7 V{BAR} z"/>',
            *(f'<circle class="dot" cx="{18 + 18 * n}" cy="{BAR / 2:g}" r="5"/>' for n in range(3))]
    rows = [[("$ ", "prompt"), (command, "typed")], *lines]
    body += [drawn(row, BAR + TOP + LINE * n + FONT) for n, row in enumerate(rows)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
            f"  <title>{html.escape(command)}</title>\n  <style>{STYLE}  </style>\n  " + "\n  ".join(part for part in body if part) + "\n</svg>\n")


def main():
    check, wrong = sys.argv[1:] == ["--check"], []
    if sys.argv[1:] and not check:
        raise SystemExit(__doc__)
    for name, (command, lines) in screens().items():
        path, text = DOCS / f"assets/screen-{name}.svg", picture(command, lines)
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(path.name)
    if wrong:
        raise SystemExit(f"not what is printed: {', '.join(wrong)}; run docs/screens/draw.py")


main()

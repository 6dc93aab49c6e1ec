#!/usr/bin/env python3
"""The examples in headers' comments, held to sources that are compiled.

    header_examples.py [ROOT]

An example is a block of comment lines indented by three spaces or more (`//   like this`), one of which ends in `;`, `{` or `...`; other
such blocks are tables. Without white space and comments it has to be in tests/unit/<folder>/examples.cpp, where <folder> is the header's
first; what stands for `...` is left to that file. Prints the examples that are not there; the exit status is then 1.
"""
import pathlib
import re
import sys

# Folders whose examples are not checked.
WITHOUT = ("tests", "build")
LINE = re.compile(r"\s*//(   +\S.*|\s*)$")


def examples(text):
    """(line, text) of each example."""
    block, start, gap = [], 0, 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = LINE.match(line)
        if match and match.group(1).strip():
            if not block:
                start = number
            block += [""] * gap + [match.group(1)]
            gap = 0
        elif match and block:
            gap += 1
        elif block:
            if any(re.search(r"(;|\{|\.\.\.)$", bare(one)) for one in block):
                yield start, "\n".join(block)
            block, gap = [], 0


def bare(line):
    """Without its comment."""
    return re.sub(r"(^|\s)//.*$", "", line).rstrip()


def squeezed(text):
    return re.sub(r"\s+", "", "\n".join(bare(line) for line in text.splitlines()))


def missing(example, source):
    """The first part of the example that the source does not have, after the parts before it; None: it has all of them."""
    at = 0
    for part in filter(None, squeezed(example).split("...")):
        found = source.find(part, at)
        if found < 0:
            return part
        at = found + len(part)
    return None


def check(root):
    wrong = []
    for header in sorted(root.rglob("*.hpp")):
        path = header.relative_to(root)
        if path.parts[0].startswith(WITHOUT):
            continue
        where = root / "tests/unit" / path.parts[0] / "examples.cpp"
        source = squeezed(where.read_text()) if where.exists() else ""
        for line, example in examples(header.read_text()):
            part = missing(example, source)
            if part is not None:
                wrong.append(f"{path}:{line}: its example is not in {where.relative_to(root)}, from here on: {part[:60]}")
    return wrong


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = check(root)
    print("\n".join(found) or "every example in a header is compiled")
    sys.exit(1 if found else 0)

#!/usr/bin/env python3
"""Whether each folder of sources includes only from folders whose libraries its CMakeLists.txt names for it.

    tests/support/includes.py [TREE]        # default: this one

Prints what is wrong, a line each; the exit status is 1 then. Wrong is also a library that is named though nothing of it is
included, and libraries that need each other.
"""

import pathlib
import re
import sys


class Target:
    """A library or program, the folder's files that are its own, and the libraries of ours that it links."""

    def __init__(self, folder, name, files, links):
        self.folder, self.name, self.files, self.links = folder, name, files, links


def targets(tree):
    """Those of each folder that has a library: the library, which has all files that no program names, and the programs."""
    for path in sorted(tree.rglob("CMakeLists.txt")):
        folder = path.parent.relative_to(tree).as_posix()
        if folder.split("/")[0] in (".", "tests") or folder.startswith("build"):
            continue
        text = re.sub(r"#.*", "", path.read_text())
        library = re.search(r"add_library\((cc_\w+) STATIC", text)
        if not library:
            continue
        files = {p.name for p in path.parent.iterdir() if p.suffix in (".cpp", ".hpp", ".h", ".c")}
        linked = {}
        for name, links in re.findall(r"target_link_libraries\(\s*([\w-]+)([^)]*)\)", text):
            linked.setdefault(name, set()).update(re.findall(r"\bcc_\w+", links))
        for name, sources in re.findall(r"add_executable\(\s*([\w-]+)([^)]*)\)", text):
            own = files & set(sources.split())
            files -= own
            yield Target(folder, name, own, linked.get(name, set()))
        yield Target(folder, library[1], files, linked.get(library[1], set()))


def includes(tree, target):
    """Each quoted include of the target's files: where it is, and what it names."""
    for name in sorted(target.files):
        for number, line in enumerate((tree / target.folder / name).read_text().splitlines(), 1):
            if include := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
                yield f"{target.folder}/{name}:{number}", include[1]


def circle(links):
    """A folder that needs itself by way of others, as the way there; or nothing."""
    done = set()

    def walk(folder, way):
        if folder in way:
            return way[way.index(folder):] + [folder]
        if folder not in done:
            for other in sorted(links[folder]):
                if round_trip := walk(other, way + [folder]):
                    return round_trip
            done.add(folder)
        return None

    return next((way for folder in sorted(links) if (way := walk(folder, []))), None)


def behind(links, needs):
    """Those folders, and all that they need."""
    found, new = set(), set(links)
    while new:
        found |= new
        new = {other for folder in new for other in needs.get(folder, ())} - found
    return found


def wrongs(tree):
    known = list(targets(tree))
    folder_of = {target.name: target.folder for target in known if target.name.startswith("cc_")}
    needs = {t.folder: {folder_of[name] for name in t.links if name in folder_of} for t in known if t.name in folder_of}
    for target in sorted(known, key=lambda t: (t.folder, t.name)):
        links, used = {folder_of[name]: name for name in target.links if name in folder_of}, set()
        for place, name in includes(tree, target):
            other = pathlib.PurePosixPath(name).parent.as_posix()
            if not (tree / name).is_file():
                yield f"{place}: there is no {name}; includes start at the root"
            elif other != target.folder:
                used.add(other)
                # A program has from its libraries what those link.
                if other not in (links if target.name in folder_of else behind(links, needs)):
                    yield f"{place}: {name}, but {target.folder}/CMakeLists.txt does not name the library of {other}/"
        if target.name in folder_of:
            for other in sorted(links.keys() - used - {target.folder}):
                yield f"{target.folder}/CMakeLists.txt: {links[other]}, of which nothing is included"
    if way := circle(needs):
        yield "these need each other: " + " -> ".join(way)


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    found = list(wrongs(tree))
    for wrong in found:
        print(wrong)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Whether each folder of sources includes only from folders whose libraries its CMakeLists.txt names.

    tests/support/includes.py [TREE]        # default: this one

Prints what is wrong, a line each; the exit status is 1 then. Wrong is also a library that is named though nothing of it is
included, and libraries that need each other.
"""

import pathlib
import re
import sys


def libraries(tree):
    """The library of each folder that has one, and what that folder links."""
    found = {}
    for path in sorted(tree.rglob("CMakeLists.txt")):
        folder = path.parent.relative_to(tree).as_posix()
        if folder.split("/")[0] in (".", "tests") or folder.startswith("build"):
            continue
        text = re.sub(r"#.*", "", path.read_text())
        library = re.search(r"add_library\((cc_\w+) STATIC", text)
        if library:
            links = re.findall(r"target_link_libraries\(([^)]*)\)", text)
            found[folder] = (library[1], {word for link in links for word in re.findall(r"\bcc_\w+", link)} - {library[1]})
    return found


def includes(tree, folder):
    """Each quoted include of the folder's own files: where it is, and what it names."""
    for path in sorted(p for p in (tree / folder).iterdir() if p.suffix in (".cpp", ".hpp", ".h", ".c")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if include := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
                yield f"{folder}/{path.name}:{number}", include[1]


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


def wrongs(tree):
    known = libraries(tree)
    folder_of = {library: folder for folder, (library, _) in known.items()}
    links = {folder: {folder_of[name] for name in named if name in folder_of} for folder, (_, named) in known.items()}
    for folder in sorted(known):
        used = set()
        for place, name in includes(tree, folder):
            other = pathlib.PurePosixPath(name).parent.as_posix()
            if not (tree / name).is_file():
                yield f"{place}: there is no {name}; includes start at the root"
            elif other != folder:
                used.add(other)
                if other not in links[folder]:
                    yield f"{place}: {name}, but {folder}/CMakeLists.txt does not name the library of {other}/"
        for other in sorted(links[folder] - used):
            yield f"{folder}/CMakeLists.txt: {known[other][0]}, of which nothing is included"
    if way := circle(links):
        yield "these need each other: " + " -> ".join(way)


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    found = list(wrongs(tree))
    for wrong in found:
        print(wrong)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

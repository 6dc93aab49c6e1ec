#!/usr/bin/env python3
"""Puts files of examples/ into the pages that show them, and checks what else the manual tells people to paste.

    docs/examples.py            writes the blocks of code
    docs/examples.py --check    fails if a page differs from the file it shows, or names a field of a CompileCache, a value of
                                the chart or an annotation that does not exist; also if a file of the tree names a page that does
                                not exist

A page names the file in a comment before the block:

    <!-- examples/vllm/deployment.yaml -->
    ```yaml
    ```

Needs python3-yaml.
"""

import pathlib
import re
import sys

import yaml

DOCS = pathlib.Path(__file__).resolve().parent
TREE = DOCS.parent
FILE = re.compile(r"(<!-- (examples/\S+) -->\n```\w*\n)(.*?)(```\n)", re.DOTALL)
YAML = re.compile(r"^( *)```yaml\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
VALUE = re.compile(r"--set(?:-string|-json)?[ =]([\w.,=/:$%-]+)")
ANNOTATION = re.compile(r"(?<![\w./])compilecache\.dev/([a-z-]+)")
PAGE = re.compile(r"(?<![\w./-])docs/[\w/-]+\.(?:md|html|svg|png)\b")
SOURCES = {".cpp", ".hpp", ".md", ".yaml", ".yml", ".py", ".sh", ".txt", ".tpl", ""}
# Labels, and names of other objects.
OTHER_NAMES = {"metrics", "sweep", "gpu-product", "review-path"}


def unknown_fields(value, schema, path):
    """Fields that the schema does not have, and values that an enumeration does not have."""
    if isinstance(value, dict) and "properties" in schema:
        for name, below in value.items():
            inner = f"{path}.{name}"
            if name not in schema["properties"]:
                yield f"there is no field {inner}"
            else:
                yield from unknown_fields(below, schema["properties"][name], inner)
    elif isinstance(value, list) and "items" in schema:
        for item in value:
            yield from unknown_fields(item, schema["items"], path + "[]")
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{path} cannot be {value}"


def wrong_manifests(text, schema):
    for indent, block in YAML.findall(text):
        block = re.sub(f"^{indent}", "", block, flags=re.MULTILINE)
        if "kind: CompileCache\n" not in block:
            continue
        for document in yaml.safe_load_all(block):
            if document.get("kind") == "CompileCache":
                yield from unknown_fields(document.get("spec", {}), schema, "spec")


def wrong_values(text, values):
    for given in VALUE.findall(text):
        for assignment in re.split(r",(?=[a-z][\w.]*=)", given):
            place = values
            name = assignment.partition("=")[0]
            for key in name.split("."):
                # The user chooses the keys below an empty map.
                if place == {}:
                    break
                if not isinstance(place, dict) or key not in place:
                    yield f"the chart has no value {name}"
                    break
                place = place[key]


def wrong_annotations(text, known):
    for name in sorted(set(ANNOTATION.findall(text)) - known - OTHER_NAMES):
        if not re.search(rf"compilecache\.dev/{name}\d", text):
            yield f"there is no annotation compilecache.dev/{name}"


def complaints(text, schema, values, annotations):
    yield from wrong_manifests(text, schema)
    yield from wrong_values(text, values)
    yield from wrong_annotations(text, annotations)


def sources():
    """Files that may name a page: programs' messages, comments, manifests. Old releases' pages are named in the changelog."""
    for folder in sorted(TREE.iterdir()):
        if folder.name.startswith((".", "build")) or folder.name == "CHANGELOG.md":
            continue
        for file in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if file.suffix in SOURCES and file.is_file() and not file.is_symlink() and "build" not in file.parts[len(TREE.parts):]:
                yield file


def missing_pages(text):
    return sorted(name for name in set(PAGE.findall(text)) if not (TREE / name).exists())


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    crd = yaml.safe_load((TREE / "crds/compilecaches.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    values = yaml.safe_load((TREE / "charts/compile-cache/values.yaml").read_text())
    annotations = set(re.findall(r"^\| `compilecache\.dev/([a-z-]+)`", (DOCS / "reference/annotations.md").read_text(), re.MULTILINE))
    wrong = 0
    for page in sorted(DOCS.rglob("*.md")):
        name, text = page.relative_to(TREE), page.read_text()
        made = FILE.sub(lambda block: block[1] + (TREE / block[2]).read_text() + block[4], text)
        if not arguments:
            if made != text:
                page.write_text(made)
            continue
        found = list(complaints(text, schema, values, annotations))
        if made != text:
            found.append("it does not show a file of examples/ as it is: run docs/examples.py and commit it")
        for complaint in found:
            print(f"{name}: {complaint}", file=sys.stderr)
        wrong += len(found)
    for file in sources() if arguments else ():
        for name in missing_pages(file.read_text(errors="replace")):
            print(f"{file.relative_to(TREE)}: there is no page {name}", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

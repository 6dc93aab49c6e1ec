#!/usr/bin/env python3
"""Writes the pages of this folder from what they describe: the CustomResourceDefinitions and the settings.

    docs/reference/generate.py            writes them
    docs/reference/generate.py --check    fails where a page is not what would be written

metrics.md is written by a test, which asks the program itself (tests/unit/operator/metrics_test.cpp). Needs python3-yaml.
"""

import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]


def cell(text):
    """One cell of a table: on one line, and without what would end it."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(text):
    text = str(text).replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


# ---- CustomResourceDefinitions


def literal(value):
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("\n...")


def type_of(schema):
    if "enum" in schema:
        return " ".join(code(value) for value in schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = schema.get("type", "any")
    if kind == "array":
        return "list of " + type_of(schema["items"])
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return "map of " + type_of(schema["additionalProperties"])
    return kind


def bounds_of(schema):
    """What a value must be beyond its type, as the API server says it."""
    said = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        said.append(f"{low} to {high}")
    elif low is not None:
        said.append(f"at least {low}")
    elif high is not None:
        said.append(f"at most {high}")
    for name, words in (("maxLength", "characters"), ("maxItems", "items")):
        if name in schema:
            said.append(f"at most {schema[name]} {words}")
    if "pattern" in schema and schema.get("maxLength", 99) <= 64:
        said.append("like " + code(schema["pattern"]))
    said += [rule["message"] for rule in schema.get("x-kubernetes-validations", []) if "message" in rule]
    return said


def sentences(parts):
    """Joined, each with a capital letter and its full stop."""
    parts = [cell(part).lstrip(". ") for part in parts if part]
    return " ".join(part[:1].upper() + part[1:] + ("" if part.endswith((".", "?", ":")) else ".") for part in parts)


def fields(schema, path):
    """Rows for the properties below a schema, those of objects and of lists' items among them."""
    required = schema.get("required", [])
    for name, below in schema.get("properties", {}).items():
        inner = f"{path}.{name}" if path else name
        default = code(literal(below["default"])) if "default" in below else "required" if name in required else ""
        # Its own column here; for `kubectl explain` it stands in the text.
        meaning = re.sub(r" Default: \S.*\.$", "", below.get("description", "")) if "default" in below else below.get("description")
        yield [code(inner), type_of(below), default, sentences([meaning, *bounds_of(below)])]
        yield from fields(below, inner)
        if below.get("type") == "array":
            yield from fields(below["items"], inner + "[]")
        if isinstance(below.get("additionalProperties"), dict):
            yield from fields(below["additionalProperties"], inner + ".*")


def columns(version):
    for column in version["additionalPrinterColumns"]:
        wide = "only with `-o wide`. " if column.get("priority") else ""
        yield [column["name"], cell(wide + column.get("description", "")), code(column["jsonPath"])]


def resource_page(source):
    crd = yaml.safe_load((TREE / source).read_text())
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    top = schema["properties"]
    parts = [
        f"# {names['kind']}\n",
        f"Written by docs/reference/generate.py from {source}; change it there.\n",
        sentences([schema["description"]]) + "\n",
        f"`apiVersion: {crd['spec']['group']}/{version['name']}`, `kind: {names['kind']}`; for kubectl "
        f"`{names['plural']}`, short `{names['shortNames'][0]}`.\n",
    ]
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    if rules:
        parts.append("The API server refuses objects that break one of these rules:\n")
        parts.append("".join(f"- {cell(rule)}\n" for rule in rules))
    for section in ("spec", "status"):
        parts.append(f"## {section}\n")
        said = sentences([top[section].get("description"), *bounds_of(top[section])])
        if said:
            parts.append(said + "\n")
        parts.append(table(["field", "type", "default", "meaning"], fields(top[section], "")))
    parts.append("## Columns of kubectl get\n")
    parts.append(table(["column", "what it shows", "where it is from"], columns(version)))
    return "\n".join(parts)


# ---- settings

SETTINGS = "config/settings.yaml"


class Comments:
    """What the comments of a YAML file say of its keys: those above a key, and the one behind it."""

    def __init__(self, text):
        self.lines = text.splitlines()

    def of(self, key, value):
        above = []
        line = key.start_mark.line - 1
        while line >= 0 and self.lines[line].strip().startswith("#"):
            above.insert(0, explained(self.lines[line].strip().removeprefix("#")))
            line -= 1
        # Behind a value on the key's line; YAML's comments begin with a blank.
        rest = ""
        if value.start_mark.line == key.start_mark.line == value.end_mark.line:
            rest = self.lines[key.start_mark.line][value.end_mark.column :].strip().lstrip("#").strip()
        return sentences([" ".join(above), rest])


def explained(line):
    """A line of a comment; one of a list of words with what each means gets its word marked."""
    word = re.fullmatch(r"   *(\S+)  +(.+)", line)
    return f"{code(word[1])}: {word[2]}" if word else line.strip()


def settings_rows(comments, node, path, whole):
    """Rows for each key of a mapping; keys in `whole` have sections of their own."""
    for key, value in node.value:
        inner = f"{path}.{key.value}" if path else key.value
        if inner in whole:
            continue
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            said = comments.of(key, value)
            if said:
                yield [code(inner), "", said]
            yield from settings_rows(comments, value, inner, whole)
        else:
            plain = yaml.safe_load(yaml.serialize(value))
            yield [code(inner), code(literal(plain)), comments.of(key, value)]


def framework_rows(comments, node):
    for key, value in node.value:
        data = yaml.safe_load(yaml.serialize(value))
        kit = data.get("startKit", {})
        yield [
            code(key.value),
            " ".join(code(f"{name}={text}") for name, text in data.get("env", {}).items()),
            " ".join(code(f"{name}={entry['value']}") + f" ({entry['since']})" for name, entry in kit.items()),
            comments.of(key, value),
        ]


def trap_rows(node):
    for key, value in node.value:
        data = yaml.safe_load(yaml.serialize(value))
        yield [code(key.value), ", ".join(code(name) for name in data["frameworks"]), cell(data["warning"])]


def settings_page():
    text = (TREE / SETTINGS).read_text()
    root = yaml.compose(text)
    comments = Comments(text)
    section = {key.value: value for key, value in root.value}
    return "\n".join(
        [
            "# Settings of the operator\n",
            f"Written by docs/reference/generate.py from {SETTINGS}; change it there.\n",
            "All keys with their defaults. Each may be left out. The operator refuses to start on an unknown key or a value out of range, and\n"
            "names key and line. Where they are kept: the ConfigMap that `config/` makes of the file; with Helm the values `settings` and\n"
            "`frameworks`.\n",
            table(["key", "default", "meaning"], settings_rows(comments, root, "", {"frameworks", "traps"})),
            "## Frameworks\n",
            f"Names for `spec.frameworks`. The patterns of the kept files are in [{SETTINGS}](../../{SETTINGS}), with a sentence for each kind.\n",
            table(["framework", "variables", "start kit (since)", "what is known"], framework_rows(comments, section["frameworks"])),
            "## Traps\n",
            "Warnings that a pod's creator gets, by the frameworks of the pod.\n",
            table(["trap", "frameworks", "warning"], trap_rows(section["traps"])),
        ]
    )


PAGES = {
    "compilecache.md": lambda: resource_page("crds/compilecaches.yaml"),
    "compilecachearchive.md": lambda: resource_page("crds/compilecachearchives.yaml"),
    "settings.md": settings_page,
}


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for name, make in PAGES.items():
        page, file = make(), HERE / name
        if not arguments:
            file.write_text(page)
        elif not file.exists() or file.read_text() != page:
            print(f"docs/reference/{name} is not what its source says: run docs/reference/generate.py and commit it", file=sys.stderr)
            stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

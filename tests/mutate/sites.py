"""Finds places of a C++ source where one small change is possible, by clang's syntax tree.

    for site in sites_of(pathlib.Path("store/index.cpp"), ["-std=c++20", ...]): print(site.line, site.kind, site.old, site.new)

A site says which bytes of the file are replaced and by what, with {n} for the number of the change: the code holds both versions
and a switch (switch/mutant.hpp) chooses, so that all changes are compiled at once. Headers are not looked at, nor what the compiler
evaluates itself (constexpr, static_assert, template arguments, case labels).
"""

import dataclasses
import re

from clang import cindex

Kind = cindex.CursorKind

OPERATORS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
             "*": "+"}
# A macro's arguments are elsewhere than clang says, and preprocessor lines cannot be moved into an expression.
MACRO = re.compile(r"#|\b[A-Z][A-Z0-9_]{3,}\(")
COMPILE_TIME = {Kind.STATIC_ASSERT, Kind.CASE_STMT, Kind.ENUM_CONSTANT_DECL, Kind.TEMPLATE_TYPE_PARAMETER,
                Kind.TEMPLATE_NON_TYPE_PARAMETER}
INTEGERS = {cindex.TypeKind.INT, cindex.TypeKind.UINT, cindex.TypeKind.LONG, cindex.TypeKind.ULONG, cindex.TypeKind.LONGLONG,
            cindex.TypeKind.ULONGLONG, cindex.TypeKind.SHORT, cindex.TypeKind.USHORT}


@dataclasses.dataclass(frozen=True)
class Site:
    file: str
    line: int
    kind: str   # what is changed: "operator", "condition", "number", "truth", "call", "assignment", "jump", "return"
    begin: int  # bytes of the file
    end: int
    old: str
    new: str    # the changed code, for people
    code: str   # what is written in its place

    def overlaps(self, other):
        return self.begin < other.end and other.begin < self.end

    @property
    def identity(self):
        """The same for as long as the code is: no line number."""
        return f"{self.file}: {self.kind}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"


def sites_of(root, path, arguments):
    """All sites of one source; `root` is the tree, `path` is relative to it."""
    text = (root / path).read_bytes()
    unit = cindex.Index.create().parse(str(root / path), arguments)
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        raise RuntimeError(f"clang cannot read {path}: {errors[0]}")
    finder = _Finder(str(path), text)
    for child in unit.cursor.get_children():
        if child.location.file and child.location.file.name == str(root / path):
            finder.visit(child, None)
    return finder.found


class _Finder:
    def __init__(self, file, text):
        self.file, self.text, self.found = file, text, []

    def source(self, cursor):
        extent = cursor.extent
        return self.text[extent.start.offset:extent.end.offset].decode(errors="replace")

    def visit(self, cursor, parent):
        if cursor.kind in COMPILE_TIME or self._is_constant(cursor):
            return
        self._look(cursor, parent)
        for child in cursor.get_children():
            self.visit(child, cursor)

    def _is_constant(self, cursor):
        if cursor.kind not in (Kind.VAR_DECL, Kind.FUNCTION_DECL, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.IF_STMT,
                               Kind.FUNCTION_TEMPLATE):
            return False
        head = re.split(r"[({=]" if cursor.kind != Kind.IF_STMT else r"\(", self.source(cursor), 1)[0]
        return re.search(r"\b(constexpr|consteval)\b", head) is not None

    def _add(self, cursor, kind, new, code):
        old = self.source(cursor)
        begin, end = cursor.extent.start.offset, cursor.extent.end.offset
        if not old or MACRO.search(old):
            return
        self.found.append(Site(self.file, cursor.extent.start.line, kind, begin, end, old, new, code))

    def _look(self, cursor, parent):
        kind = cursor.kind
        is_statement = parent is not None and parent.kind in (Kind.COMPOUND_STMT, Kind.IF_STMT, Kind.FOR_STMT,
                                                              Kind.CXX_FOR_RANGE_STMT, Kind.WHILE_STMT)
        if kind == Kind.BINARY_OPERATOR:
            self._operator(cursor, is_statement and parent.kind == Kind.COMPOUND_STMT)
        elif kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR and is_statement and parent.kind == Kind.COMPOUND_STMT:
            self._removed(cursor, "assignment")
        elif kind == Kind.CALL_EXPR and parent is not None and parent.kind == Kind.COMPOUND_STMT:
            self._removed(cursor, "call")
        elif kind in (Kind.CONTINUE_STMT, Kind.BREAK_STMT) and parent is not None and parent.kind != Kind.SWITCH_STMT:
            old = self.source(cursor)
            self._add(cursor, "jump", "", f"if (!CC_MUTANT({{n}})) {old}")
        elif kind == Kind.IF_STMT:
            self._condition(cursor)
        elif kind == Kind.CXX_BOOL_LITERAL_EXPR:
            old = self.source(cursor)
            new = "false" if old == "true" else "true"
            self._add(cursor, "truth", new, f"(CC_MUTANT({{n}}) ? {new} : {old})")
        elif kind == Kind.INTEGER_LITERAL and cursor.type.kind in INTEGERS:
            old = self.source(cursor)
            if not old[:1].isdigit():  # the zero of a comparison that the compiler wrote, or of a macro
                return
            self._add(cursor, "number", f"{old} + 1", f"(CC_MUTANT({{n}}) ? {old} + 1 : {old})")
        elif kind == Kind.RETURN_STMT:
            self._return(cursor)

    def _operator(self, cursor, is_statement):
        children = list(cursor.get_children())
        if len(children) != 2:
            return
        left, right = (self.source(child) for child in children)
        between = self.text[children[0].extent.end.offset:children[1].extent.start.offset].decode(errors="replace")
        operator = between.strip()
        if operator == "=" and is_statement:
            self._removed(cursor, "assignment")
        if operator in ("+", "-", "*") and cursor.type.kind not in INTEGERS:
            return
        new = OPERATORS.get(operator)
        if new:
            self._add(cursor, "operator", f"{left} {new} {right}",
                      f"(CC_MUTANT({{n}}) ? ({left} {new} {right}) : ({left} {operator} {right}))")

    def _removed(self, cursor, kind):
        self._add(cursor, kind, "", f"if (!CC_MUTANT({{n}})) {self.source(cursor)}")

    def _condition(self, cursor):
        children = [c for c in cursor.get_children() if c.kind not in (Kind.COMPOUND_STMT, Kind.DECL_STMT, Kind.VAR_DECL)]
        head = self.source(cursor)
        if not children or head.startswith("if constexpr") or re.match(r"if \([^()]*;", head):
            return
        condition = children[0]
        if condition.extent.start.offset - cursor.extent.start.offset > len("if ("):
            return
        old = self.source(condition)
        self._add(condition, "condition", f"!({old})", f"(CC_MUTANT({{n}}) ? !({old}) : static_cast<bool>({old}))")

    def _return(self, cursor):
        children = list(cursor.get_children())
        if len(children) != 1:
            return
        value = children[0]
        old = self.source(value)
        if value.type.get_canonical().kind == cindex.TypeKind.BOOL and old not in ("true", "false"):
            self._add(value, "return", f"!({old})", f"(CC_MUTANT({{n}}) ? !({old}) : static_cast<bool>({old}))")

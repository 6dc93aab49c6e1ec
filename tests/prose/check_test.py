#!/usr/bin/env python3
"""Each rule of the prose check finds its pattern, in Markdown, comments and messages, and passes the better sentence.

    tests/prose/check_test.py VALE
"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
LOADER = importlib.machinery.SourceFileLoader("check", str(HERE / "check"))
prose = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", LOADER))
LOADER.exec_module(prose)

LONG = "The loader " + "reads the archive and " * 10 + "ends."
PAIRS = {
    "SentenceLength": (LONG, "The loader reads the archive. Then it ends."),
    "NounClauses": ("What is loaded is checked first.", "What is loaded here? Loaded files are checked first."),
    "WordOrder": ("Of these only two are kept.", "Of course, two of these are kept."),
    "Words": ("The folder is made anew after that.", "The folder is recreated after that."),
    "OwnWords": ("The loader is told of it.", "The loader receives it."),
    "Openers": ("Else the pod starts cold.", "Otherwise the pod starts cold."),
}


class Rules(unittest.TestCase):
    def found(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            prose.TREE = pathlib.Path(folder)
            (prose.TREE / name).write_text(text)
            return [(line, rule) for _, line, rule, _ in prose.check([name], VALE)]

    def test_each_rule_in_each_kind_of_text(self):
        for rule, (wrong, right) in PAIRS.items():
            for name, before, after in (("a.md", "# Title\n\n", "\n"), ("a.cpp", "int a;\n\n// ", "\nint b;\n"), ("a.sh", "#!/bin/sh\n\n# ", "\n"),
                                        ("a.yaml", "a: 1\n\n  # ", "\nb: 2\n"), ("b.cpp", "int a;\n\nauto x = error(\"", "\");\n")):
                with self.subTest(rule=rule, file=name):
                    self.assertEqual(self.found(name, before + wrong + after), [(3, rule)])
                    self.assertEqual(self.found(name, before + right + after), [])

    def test_a_finding_has_its_line_in_the_file(self):
        self.assertEqual(self.found("a.cpp", "// The folder is\n// made anew.\nint a;\n"), [(2, "Words")])

    def test_code_and_examples_are_no_prose(self):
        self.assertEqual(self.found("a.md", "Run `mend anew` now.\n\n    mend anew\n\n```\nmend anew\n```\n"), [])
        self.assertEqual(self.found("a.cpp", "// For example:\n//   mend anew\nauto key = \"anew\";\n"), [])

    def test_two_literals_in_a_row_are_one_message(self):
        self.assertEqual(self.found("a.cpp", 'auto a = "the folder is made "\n    "anew after that";\n'), [(1, "Words")])


if __name__ == "__main__":
    VALE = sys.argv.pop(1)
    unittest.main()

#!/usr/bin/env python3
"""docs/examples.py finds what a reader of the manual could not paste."""

import importlib.util
import pathlib
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3] / "docs/examples.py"
SPEC = importlib.util.spec_from_file_location("examples", SOURCE)
examples = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(examples)

SCHEMA = {"properties": {"storage": {"properties": {"claimName": {}}}, "frameworks": {"items": {}},
                         "load": {"properties": {"fallback": {"enum": ["Compatible", "Exact"]}}}}}
VALUES = {"image": {"repository": "a"}, "settings": {}, "registry": {"enabled": False}}


def manifest(spec):
    return f"text\n\n```yaml\napiVersion: v1\nkind: CompileCache\nspec: {spec}\n```\n"


class Examples(unittest.TestCase):
    def test_fields_of_a_compile_cache(self):
        wrong = lambda spec: list(examples.wrong_manifests(manifest(spec), SCHEMA))
        self.assertEqual(wrong("{storage: {claimName: a}, frameworks: [torch], load: {fallback: Exact}}"), [])
        self.assertEqual(wrong("{storage: {claim: a}}"), ["there is no field spec.storage.claim"])
        self.assertEqual(wrong("{load: {fallback: exact}}"), ["spec.load.fallback cannot be exact"])

    def test_an_indented_manifest_is_read(self):
        text = "1. Apply:\n\n" + "".join(f"    {line}\n" for line in manifest("{store: {}}").splitlines()[2:])
        self.assertEqual(list(examples.wrong_manifests(text, SCHEMA)), ["there is no field spec.store"])

    def test_values_of_the_chart(self):
        wrong = lambda text: list(examples.wrong_values(text, VALUES))
        self.assertEqual(wrong("--set image.repository=host/a,registry.enabled=true --set settings.any.key=1"), [])
        self.assertEqual(wrong("helm install a --set registry.enable=true"), ["the chart has no value registry.enable"])

    def test_pages(self):
        missing = "/".join(["docs", "start", "no-such-page.md"])
        self.assertEqual(examples.missing_pages(f"see docs/run/install.md, ({missing}), other/docs/that.md"), [missing])

    def test_annotations(self):
        wrong = lambda text: list(examples.wrong_annotations(text, {"cache"}))
        self.assertEqual(wrong("`compilecache.dev/cache`, kind of `compilecache.dev/v1alpha1`, image registry.compilecache.dev/other"), [])
        self.assertEqual(wrong("compilecache.dev/cach: a"), ["there is no annotation compilecache.dev/cach"])


if __name__ == "__main__":
    unittest.main()

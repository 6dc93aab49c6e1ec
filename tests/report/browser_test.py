#!/usr/bin/env python3
"""The page of `kubectl compilecache report` in a real browser: it renders, the console is silent, nothing is fetched, and on a
telephone nothing is wider than the screen.

    browser_test.py REPORT_SAMPLE                        # the test
    browser_test.py REPORT_SAMPLE --picture FILE.png     # the picture of docs/how-to/report.md

Without chromium and chromedriver: NOT RUN, exit status 77, or 1 with CC_NO_SKIPS.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # nothing is left beside the sources
import browser as chromium

TELEPHONE, DESK = 390, 1200
# What reaches beyond the screen: the elements' words.
TOO_WIDE = """
const wide = [...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > arguments[0] + 0.5);
return {inner: innerWidth, page: document.documentElement.scrollWidth,
        wide: wide.map(one => one.outerHTML.slice(0, 200))};
"""


def page_of(kind):
    return subprocess.run([SAMPLE, kind], check=True, capture_output=True, timeout=60).stdout


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = cls.enterClassContext(chromium.Browser())
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def open(self, page, width):
        path = self.folder / "report.html"
        path.write_bytes(page)
        self.browser.open(path, width)

    def show(self, kind, width=DESK):
        self.open(page_of(kind), width)

    def test_every_page_renders_in_silence_at_every_width(self):
        for kind in ("example", "hostile", "empty", "failed"):
            for width in (320, TELEPHONE, 700, DESK):
                with self.subTest(kind=kind, width=width):
                    self.show(kind, width)
                    self.assertIn("ompile caches", self.browser.run("return document.querySelector('h1').innerText"))
                    self.assertEqual(self.browser.console(), [])
                    seen = self.browser.run(TOO_WIDE, width)
                    self.assertEqual((seen["inner"], seen["page"], seen["wide"]), (width, width, []))
                    self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').length"), 0)

    def test_the_figures_and_the_drawings_are_to_be_seen(self):
        self.show("example", TELEPHONE)
        words = self.browser.run("return document.querySelector('main').innerText")
        for told in ("saved 183.3 GPU-hours, about 458 USD", "Cluster prod-eu", "from 2026-10-03 to 2026-11-24", "25 h 7 min", "92 %",
                     "spends 3.8 s on this instead of 172 s", "NVIDIA-H100-80GB-HBM3", "2 of the last 6 pods of ml/llama", "no_archive",
                     "ClaimNotFound"):
            self.assertIn(told, words)
        drawn = self.browser.run("""return [...document.querySelectorAll('.chart .warm')].map(one => one.getBoundingClientRect())
            .filter(box => box.width > 3 && box.height > 10).length""")
        self.assertGreater(drawn, 35)
        colours = self.browser.run("return new Set([...document.querySelectorAll('rect')].map(one => getComputedStyle(one).fill)).size")
        self.assertGreaterEqual(colours, 5, "columns and ages have colours")
        bars = self.browser.run("return [...document.querySelectorAll('.bar')].map(one => one.getBoundingClientRect().height)")
        self.assertEqual(len(bars), 3)
        self.assertGreater(min(bars), 8)

    def test_a_warm_start_is_drawn_shorter_than_the_cold_one_above_it(self):
        for width in (TELEPHONE, DESK):
            self.show("example", width)
            boxes = self.browser.run("return [...document.querySelectorAll('.start rect')].map(one => one.getBoundingClientRect())")
            self.assertEqual(len(boxes), 4)
            for cold, warm in zip(boxes[::2], boxes[1::2]):
                self.assertGreater(cold["width"], 3 * warm["width"])
                self.assertGreater(warm["width"], 0)
                self.assertLess(cold["bottom"], warm["top"])

    def test_the_summary_names_no_command(self):
        self.show("example")
        words = self.browser.run("return document.querySelector('main').innerText").split("Appendix for engineers")
        self.assertEqual(len(words), 2)
        self.assertNotIn("kubectl", words[0])
        self.assertIn("kubectl compilecache explain", words[1])

    def test_on_a_telephone_each_figure_of_a_cache_has_its_name_beside_it(self):
        names = "return getComputedStyle(document.querySelector('td[data-label=saved]'), '::before').content"
        self.show("example", TELEPHONE)
        self.assertEqual(self.browser.run(names), '"saved"')
        self.assertEqual(self.browser.run("return getComputedStyle(document.querySelector('thead')).display"), "none")
        self.show("example", DESK)
        self.assertEqual(self.browser.run(names), "none")

    def test_texts_of_the_cluster_are_texts(self):
        self.show("hostile")
        self.assertEqual(self.browser.run("return document.querySelectorAll('script, img').length"), 0)
        self.assertTrue(self.browser.run("return window.hacked === undefined"))
        self.assertIn("<script>window.hacked = 1</script>", self.browser.run("return document.querySelector('.card p').innerText"))

    # The faults that the other tests look for are found.
    def test_a_page_that_is_wrong_is_noticed(self):
        self.open(page_of("empty").replace(b"</main>", b"<div style='width:600px'>x</div><img src='http://127.0.0.1:1/x.png'>"
                                           b"<script>window.hacked = 1</script></main>"), TELEPHONE)
        seen = self.browser.run(TOO_WIDE, TELEPHONE)
        self.assertGreater(seen["page"], TELEPHONE)
        self.assertNotEqual(seen["wide"], [])
        said = "\n".join(self.browser.console())
        self.assertIn("x.png", said)
        self.assertIn("script", said)
        self.assertTrue(self.browser.run("return window.hacked === undefined"), "the page itself forbids scripts")


def take_picture(path):
    with chromium.Browser() as browser, tempfile.NamedTemporaryFile(suffix=".html") as page:
        page.write(page_of("example"))
        page.flush()
        width = 720
        browser.open(page.name, width)
        height = browser.run("return [...document.querySelectorAll('h2')].at(-1).getBoundingClientRect().top")
        pathlib.Path(path).write_bytes(browser.picture(width, height, 0.85))


if __name__ == "__main__":
    SAMPLE = os.path.abspath(sys.argv.pop(1))
    if absent := chromium.missing():
        print(f"NOT RUN: {' and '.join(absent)} not installed (tests/browser-debian-packages.txt)")
        sys.exit(1 if os.environ.get("CC_NO_SKIPS") else 77)
    if sys.argv[1:2] == ["--picture"]:
        take_picture(sys.argv[2])
    else:
        unittest.main(verbosity=2)

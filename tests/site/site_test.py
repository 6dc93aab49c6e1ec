#!/usr/bin/env python3
"""The manual as a site: built strictly, without a request to another server, and shown by a real browser. See README.md here.

Without what it needs: NOT RUN, exit status 77, or 1 with CC_NO_SKIPS.
"""
import functools
import html.parser
import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True  # nothing is left beside the sources
PROJECT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests/report"))
import browser as chromium

PHONE, DESK = 390, 1280
PAGES = ("", "start/first-hour/", "run/sizing/", "troubleshoot/reasons/", "reference/compilecache/")
# A browser fetches these by itself when it shows a page.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}


class Fetched(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag in FETCHED:
            self.found.append(named.get(FETCHED[tag]) or "")
        if tag == "link" and "canonical" not in named.get("rel", "") and named.get("rel") not in ("next", "prev"):
            self.found.append(named.get("href") or "")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server:
    """The folder by HTTP on loopback."""

    def __init__(self, folder):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
        self.address = f"http://127.0.0.1:{self.server.server_port}/"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def site(*arguments, folder, tree=PROJECT):
    """docs/site; what it says goes to the test's output."""
    return subprocess.run([str(tree / "docs/site"), *arguments], env=os.environ | {"COMPILECACHE_SITE": str(folder)}, cwd=tree,
                          timeout=600, check=False).returncode


def external(folder):
    """What pages of the site would fetch from other servers."""
    found = []
    for page in folder.rglob("*.html"):
        parser = Fetched()
        parser.feed(page.read_text())
        found += [f"{page.relative_to(folder)}: {link}" for link in parser.found if link.startswith(("http:", "https:", "//"))]
    for style in folder.rglob("*.css"):
        if "@import" in (text := style.read_text()) or "url(http" in text or "url(//" in text:
            found.append(str(style.relative_to(folder)))
    return found


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server = cls.enterClassContext(Server(FOLDER))
        cls.address = server.address
        cls.browser = cls.enterClassContext(chromium.Browser())

    def wait_until(self, script):
        """Until the script returns something true; a browser that never does is a failure."""
        found = self.browser.run("""
            const ask = new Function(arguments[0]), until = Date.now() + 30000;
            return new Promise(done => { const again = () => {
                const found = ask(); if (found || Date.now() > until) done(found); else setTimeout(again, 50); }; again(); });""", script)
        self.assertTrue(found, script)
        return found

    def test_no_page_fetches_anything_from_another_server(self):
        self.assertEqual(external(FOLDER), [])

    def test_pages_show_in_silence_at_desktop_and_phone_width(self):
        for page in PAGES:
            for width in (DESK, PHONE):
                for scheme in ("light", "dark"):
                    with self.subTest(page=page, width=width, scheme=scheme):
                        self.browser.show(self.address + page, width, scheme=scheme)
                        self.assertTrue(self.browser.run("return document.querySelector('article h1').innerText"))
                        self.wait_until("return document.readyState == 'complete'")
                        self.assertEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
                        fetched = self.browser.run("return performance.getEntriesByType('resource').map(one => one.name)")
                        self.assertEqual([one for one in fetched if not one.startswith(self.address)], [])
                        self.assertEqual(self.browser.console(), [])

    def test_every_page_fits_a_phone(self):
        for page in sorted(FOLDER.rglob("index.html")):
            name = str(page.relative_to(FOLDER))
            if not name.startswith("tree/"):  # files of the source tree
                with self.subTest(page=name):
                    self.browser.show(self.address + name, PHONE)
                    self.assertEqual(self.browser.run("return document.documentElement.scrollWidth"), PHONE)
                    self.assertEqual(self.browser.run("return document.querySelectorAll('article h1').length"), 1)
                    self.assertEqual(self.browser.console(), [])

    def test_dark_pages_are_dark(self):
        for scheme, name in (("light", "default"), ("dark", "slate")):
            self.browser.show(self.address, DESK, scheme=scheme)
            self.assertEqual(self.browser.run("return document.body.dataset.mdColorScheme"), name)

    def test_diagrams_are_drawn(self):
        pages = [page for page in sorted(FOLDER.rglob("*.html")) if 'class="mermaid"' in page.read_text()]
        self.assertTrue(pages, "no page has a diagram")
        for page in pages:
            with self.subTest(page=page.relative_to(FOLDER)):
                self.browser.show(self.address + str(page.relative_to(FOLDER)), DESK)
                # Material puts each drawing where nothing else reaches it; it is seen by its size.
                self.wait_until("return document.querySelectorAll('pre.mermaid').length == 0")
                self.wait_until("return [...document.querySelectorAll('div.mermaid')].every(one => one.getBoundingClientRect().height > 60)")
                self.assertEqual(self.browser.console(), [])

    def test_the_sizing_form_computes_what_the_page_says(self):
        self.browser.show(self.address + "run/sizing/", DESK)
        for megabytes, seconds, in_time in (("88", "70 s", "1000 of 1000"), ("400", "5.3 min", "375 of 1000")):
            found = self.browser.run("""
                const input = document.getElementById("s-mb"); input.value = arguments[0]; input.dispatchEvent(new Event("input"));
                return ["r-one", "r-one-in"].map(id => document.getElementById(id).innerText);""", megabytes)
            self.assertEqual(found, [seconds, in_time])

    def test_the_search_finds_a_page(self):
        self.browser.show(self.address + "?q=single+flight", DESK)
        found = self.wait_until("return [...document.querySelectorAll('.md-search-result__link')].map(one => one.href).join(' ')")
        self.assertIn(self.address, found)


class Versions(unittest.TestCase):
    def test_two_versions_are_side_by_side(self):
        with tempfile.TemporaryDirectory() as scratch:
            tree = pathlib.Path(scratch) / "tree"
            git = ["git", "-C", str(tree), "-c", "user.name=test", "-c", "user.email=test@example.com"]
            shutil.copytree(PROJECT, tree, ignore=shutil.ignore_patterns(".git", "build*", "testdata", "corpus"), symlinks=True)
            for words in (["init", "-q"], ["config", "user.name", "test"], ["config", "user.email", "test@example.com"], ["add", "docs", "mkdocs.yml"],
                          ["commit", "-q", "-m", "one"]):
                subprocess.run([*git, *words], check=True)
            for words in (["deploy", "0.1"], ["deploy", "0.2", "latest"]):
                self.assertEqual(site(*words, folder="unused", tree=tree), 0)
            subprocess.run([*git, "worktree", "add", "-q", scratch + "/site", "site"], check=True)
            with Server(scratch + "/site") as server, chromium.Browser() as browser:
                browser.show(server.address + "latest/", DESK)
                names = browser.run("""return new Promise(done => { const until = Date.now() + 30000, again = () => {
                    const found = [...document.querySelectorAll('.md-version__link')].map(one => one.innerText.trim());
                    if (found.length || Date.now() > until) done(found); else setTimeout(again, 50); }; again(); });""")
                self.assertEqual([name.split()[0] for name in names], ["0.2", "0.1"])
                self.assertEqual(browser.console(), [])


class TheTest(unittest.TestCase):
    def test_a_request_to_another_server_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.html").write_text("<a href='https://example.com'>fine</a><script src='https://example.com/x.js'></script>")
            (pathlib.Path(folder) / "b.css").write_text("@import 'https://example.com/x.css'")
            self.assertEqual(sorted(external(pathlib.Path(folder))), ["a.html: https://example.com/x.js", "b.css"])


def not_run(why):
    print(f"NOT RUN: {why}")
    sys.exit(1 if os.environ.get("CC_NO_SKIPS") else 77)


if __name__ == "__main__":
    if absent := chromium.missing():
        not_run(f"{' and '.join(absent)} not installed (tests/browser-debian-packages.txt)")
    with tempfile.TemporaryDirectory(prefix="compilecache-site-") as temporary:
        FOLDER = pathlib.Path(temporary) / "site"
        if (code := site(folder=FOLDER)) == 77:
            not_run("PyPI does not give the site's tools")
        elif code != 0:
            sys.exit("docs/site: the strict build fails; see above")
        unittest.main(verbosity=2)

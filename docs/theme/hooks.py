"""What docs/site adds to mkdocs.

Pages link to files of the source tree (`../examples/vllm/deployment.yaml`), as Markdown in a repository does. The site has no
repository beside it, so each file that a page links to becomes a page below `tree/`: Markdown as it is, all else as a block of code.
A file that does not exist stays a broken link, which the strict build reports.

Mermaid, which draws the diagrams, is loaded by the pages that have one, and from the site itself.
"""
import os
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File, InclusionLevel

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*(```|~~~)")
LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".py": "python", ".sh": "bash", ".hpp": "cpp", ".cpp": "cpp", ".json": "json"}
MERMAID = "assets/mermaid.min.js"
LARGEST_FILE = 200_000


def on_config(config):
    """The selector of versions needs what mike puts beside the versions."""
    if os.environ.get("MIKE_DOCS_VERSION"):
        config.extra["version"] = {"provider": "mike"}
    return config


def on_files(files, config):
    root, docs = Path(config.config_file_path).parent, Path(config.docs_dir)
    linked = {}
    for file in files.documentation_pages():
        for target in outward_links(Path(file.abs_src_path).read_text(), Path(file.abs_src_path).parent, root, docs):
            linked[page_of(target, root)] = target
    config.extra["tree"] = linked
    for name, target in sorted(linked.items()):
        files.append(File.generated(config, name, content=content_of(target, root), inclusion=InclusionLevel.NOT_IN_NAV))
    files.append(File.generated(config, MERMAID, abs_src_path=os.environ["COMPILECACHE_MERMAID"]))
    return files


def on_page_markdown(markdown, page, config, files):
    root, docs = Path(config.config_file_path).parent, Path(config.docs_dir)
    source = config.extra["tree"].get(page.file.src_uri)
    folder = (source if source.is_dir() else source.parent) if source else Path(page.file.abs_src_path).parent
    here = posixpath.dirname(page.file.src_uri)

    def moved(match):
        target, anchor = resolved(match[2], folder)
        if target is None or not target.is_relative_to(root) or not target.exists():
            return match[0]
        if target.is_relative_to(docs) and files.get_file_from_path(name := target.relative_to(docs).as_posix()):
            pass
        elif (name := page_of(target, root)) not in config.extra["tree"]:
            # Two links away from the manual: named, but no page of it.
            return match[0].split("](")[0].lstrip("!").lstrip("[") if source else match[0]
        return match[1] + posixpath.relpath(name, here or ".") + anchor + match[3]

    return outside_fences(markdown, lambda text: LINK.sub(moved, text))


def on_post_page(output, page, config):
    if 'class="mermaid"' not in output:
        return output
    script = posixpath.relpath(MERMAID, page.url if page.url.endswith("/") else posixpath.dirname(page.url) or ".")
    before, bundle, after = output.rpartition("<script src=")
    return f'{before}<script src="{script}"></script>{bundle}{after}'


def outward_links(markdown, folder, root, docs):
    """The files and folders of the tree, outside of docs/, that this page links to."""
    found = []

    def note(match):
        target, _ = resolved(match[2], folder)
        if target and target.exists() and target.is_relative_to(root) and not target.is_relative_to(docs):
            found.append(target)
        return match[0]

    outside_fences(markdown, lambda text: LINK.sub(note, text))
    return found


def resolved(link, folder):
    """The path that a relative link means, and its anchor."""
    if re.match(r"[a-z]+:|/|#", link):
        return None, ""
    path, hash_mark, anchor = link.partition("#")
    return Path(os.path.normpath(folder / path)), hash_mark + anchor


def page_of(target, root):
    name = target.relative_to(root).as_posix()
    if target.is_dir():
        return f"tree/{name}/index.md"
    if target.suffix == ".md":
        # README.md is the index of its folder, as on the site.
        return f"tree/{name}"
    return f"tree/{name}.md"


def content_of(target, root):
    name = target.relative_to(root).as_posix()
    hidden = "---\nsearch:\n  exclude: true\n---\n\n"
    if target.suffix == ".md":
        return hidden + target.read_text()
    if target.is_dir():
        readme = target / "README.md"
        listing = "\n".join(f"- `{one.name}`" for one in sorted(target.iterdir()))
        return hidden + (readme.read_text() if readme.exists() else f"# {name}/\n\n{listing}\n")
    text = target.read_text(errors="replace")[:LARGEST_FILE]
    return hidden + f"# {target.name}\n\n`{name}`\n\n~~~~{LANGUAGES.get(target.suffix, 'text')}\n{text}\n~~~~\n"


def outside_fences(markdown, change):
    """The Markdown with `change` made to what is neither in a fence nor indented as code."""
    pieces, text, fence = [], [], None

    def flush():
        if text:
            pieces.append(change("\n".join(text)))
            text.clear()

    for line in markdown.split("\n"):
        found = FENCE.match(line)
        if found is None and fence is None and not line.startswith("    "):
            text.append(line)
            continue
        if found:
            fence = None if fence == found[1] else fence or found[1]
        flush()
        pieces.append(line)
    flush()
    return "\n".join(pieces)

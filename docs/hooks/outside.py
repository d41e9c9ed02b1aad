"""Files of the repository that pages link to, and that lie outside of docs/, as parts of the site.

A page of docs/ says ``../deploy/README.md``, as GitHub wants it. Here that file becomes ``deploy/README.md`` of the
site, and so on from page to page. Of a folder a list of its files is made.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"""(?<=\]\()(?!https?:|mailto:|#)[^)\s#]+|(?<=\bsrc=")(?!https?:)[^"]+|(?<=\bsrcset=")[^"]+""")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

ALWAYS = ("README.md", "README.zh-CN.md", "CHANGELOG.md", "deploy/README.md")
"""These are in the navigation, whoever links to them."""

RENAMED = {"README.md": "readme.md"}
"""mkdocs takes a README.md at the top for the site's first page, which is docs/index.md."""

_sources: dict[str, Path] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is linked, and what is linked from there."""
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()] + [ROOT / name for name in ALWAYS]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        name = _name(path)
        _sources[name] = path
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if one.is_file() and not one.name.startswith("."))
            waiting += inside
            if name not in files.src_uris:
                files.append(File.generated(config, name, content=_listing(path, inside)))
            continue
        if name not in files.src_uris:
            files.append(File.generated(config, name, abs_src_path=str(path)))
        if path.suffix == ".md":
            links = LINK.findall(CODE.sub("", path.read_text(encoding="utf-8")))
            waiting += [_target(link, path) for link in links]
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links within the site."""
    source = _sources.get(page.file.src_uri, DOCS / page.file.src_uri)

    def turned(match: re.Match[str]) -> str:
        target = _target(match[0], source)
        return _between(page.file.src_uri, _name(target)) if target.exists() else match[0]

    return LINK.sub(turned, markdown)


def _listing(folder: Path, inside: list[Path]) -> str:
    """A page for a folder that has none of its own; its links are those of the repository, like any page's."""
    rows = "".join(f"* [{_title(one)}]({one.name})\n" for one in inside)
    title = "Decisions" if folder.name == "adr" else folder.relative_to(ROOT).as_posix()
    return f"# {title}\n\n{rows}"


def _title(path: Path) -> str:
    """A page is listed by its heading, another file by its name."""
    if path.suffix != ".md":
        return path.name
    return path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")


def _target(link: str, source: Path) -> Path:
    folder = source if source.is_dir() else source.parent
    return Path(os.path.normpath(folder / link))


def _name(path: Path) -> str:
    """What a file or folder of the repository is called in the site."""
    name = path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()
    if path.is_dir():
        return f"{name}/index.md"
    return RENAMED.get(name, name)


def _between(page: str, target: str) -> str:
    return os.path.relpath(target, os.path.dirname(page) or ".").replace(os.sep, "/")

"""The pages as they are read on GitHub: their links, headings and commands."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
PAGES = (
    *READMES,
    ROOT / "CHANGELOG.md",
    ROOT / "deploy" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"``[^`]+``|`[^`\n]+`")
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)|\bsrc(?:set)?=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"\s+#\s.*$", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def links_of(page: Path) -> list[str]:
    """Targets as they are written, but for those in code."""
    text = _CODE.sub("", _BLOCK.sub("", text_of(page)))
    return [one or other for one, other in _LINK.findall(text)]


def anchors_of(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    seen: Counter[str] = Counter()
    anchors = set()
    for heading in _HEADING.findall(_BLOCK.sub("", text_of(page))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        kept = "".join(c for c in words if c in "-_ " or unicodedata.category(c)[0] in "LN")
        anchor = kept.replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


def target_of(link: str, page: Path) -> tuple[Path, str]:
    """The file that a link within the repository leads to, and the anchor in it."""
    name, _, anchor = link.partition("#")
    return (Path(os.path.normpath(page.parent / name)) if name else page), anchor


def blocks_of(page: Path, language: str) -> list[str]:
    """The blocks of one language, in order."""
    return [block for name, block in _BLOCK.findall(text_of(page)) if name == language]


def without_comments(block: str) -> str:
    """A block of shell without its comments, which are in the page's language."""
    return _COMMENT.sub("", block).strip()


def within(link: str) -> bool:
    return not re.match(r"[a-z]+:", link)

"""The README in both languages says the same."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import READMES, ROOT, blocks_of, links_of, text_of, without_comments

ENGLISH, CHINESE = READMES
LANGUAGES = {"README.md", "README.zh-CN.md"}


@pytest.mark.parametrize("language", ["sh", "console"])
def test_both_name_the_same_commands(language: str) -> None:
    ours, theirs = ([without_comments(block) for block in blocks_of(readme, language)] for readme in (ENGLISH, CHINESE))
    assert ours
    assert theirs == ours


def test_both_link_the_same_pages_in_the_same_order() -> None:
    ours, theirs = ([link for link in links_of(readme) if link not in LANGUAGES] for readme in (ENGLISH, CHINESE))
    assert ours
    assert theirs == ours


def test_each_links_the_other() -> None:
    assert "README.zh-CN.md" in links_of(ENGLISH)
    assert "README.md" in links_of(CHINESE)


def test_both_have_the_same_figures_and_names() -> None:
    """Whatever stands in backticks, and each number with a unit or a point in it."""
    ours, theirs = (set(re.findall(r"`([^`\n]+)`", text_of(readme))) for readme in (ENGLISH, CHINESE))
    assert ours ^ theirs <= {"worker"}
    numbers, same = (
        sorted(re.findall(r"\d+\.\d+(?= s\b| 秒)|\d,\d{3}", text_of(readme))) for readme in (ENGLISH, CHINESE)
    )
    assert numbers == same


def test_each_command_of_make_that_is_named_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for readme in READMES:
        named = set(re.findall(r"(?:`|^)(?:[A-Z_]+=\S+ )?make ([a-z][a-z-]*)", text_of(readme), re.MULTILINE))
        assert named <= targets

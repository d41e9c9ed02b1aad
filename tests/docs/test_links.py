"""Links lead somewhere, on GitHub; `make docs-site` looks at those of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors_of, links_of, target_of, within

IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    lost = []
    for link in filter(within, links_of(page)):
        target, anchor = target_of(link, page)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_elsewhere_are_https(page: Path) -> None:
    assert [link for link in links_of(page) if not within(link) and not link.startswith("https://")] == []


def test_each_page_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        if page.is_dir():
            waiting += page.glob("*.md")
        elif page.suffix == ".md":
            waiting += [target_of(link, page)[0] for link in filter(within, links_of(page))]
    assert [page.relative_to(ROOT).as_posix() for page in PAGES if page not in reached] == ["docs/index.md"]

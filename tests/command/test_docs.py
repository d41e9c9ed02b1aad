"""The documents keep up with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from buffer.gauge_metrics import Gauges
from buffer.setting_sources import variable_of
from buffer.settings import Settings
from buffer.telemetry import Telemetry
from doublebuffer.settings_page import settings_page
from worker.gpu import FIGURES

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PARTS = ("gateway", "policy", "buffer", "worker", "backends", "simulate", "bench", "doublebuffer")
PLACES = (*PARTS, "deploy", "tests", "docs")
FILE = re.compile(rf"`((?:{'|'.join(PLACES)})/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#]+)(?:#[^)]*)?\)|src(?:set)?=\"(?!https?:)([^\"]+)\"")
SETTING = re.compile(r"\bDOUBLEBUFFER_[A-Z_]+\b")


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = [ROOT / name for name in FILE.findall(text)]
    linked = [page.parent / (one or other) for one, other in LINK.findall(text)]
    assert [str(path) for path in named + linked if not path.exists()] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_setting_that_a_page_names_exists(page: Path) -> None:
    known = {variable_of(name) for name in Settings.model_fields} | {"DOUBLEBUFFER_CONFIG"}
    assert set(SETTING.findall(page.read_text(encoding="utf-8"))) <= known


def test_the_path_of_a_request_is_told_in_ten_hops() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    hops = re.findall(r"^(\d+)\. (.*(?:\n   .*)*)", text, re.MULTILINE)
    assert [int(number) for number, _ in hops] == list(range(1, 11))
    assert all(FILE.search(hop) for _, hop in hops)


def test_each_metric_has_a_line() -> None:
    told = Telemetry().exposition(Gauges()).decode()
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = {*re.findall(r"# TYPE (\w+)", told), *(f"doublebuffer_gpu_{name}" for name in FIGURES)}
    assert names == set(re.findall(r"^\| `(doublebuffer_\w+)`", page, re.MULTILINE))


def test_the_page_of_settings_is_current() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), "run `make docs`"


def test_no_setting_is_accepted_that_no_code_reads() -> None:
    sources = [
        path.read_text(encoding="utf-8")
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        if not path.name.startswith("setting")
    ]
    unread = {
        name for name in Settings.model_fields if not any(re.search(rf"settings\.{name}\b", text) for text in sources)
    }
    assert unread == set()

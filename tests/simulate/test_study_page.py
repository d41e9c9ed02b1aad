"""The study's page and its plots."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from doublebuffer.cli import main
from simulate.study_plots import linear_ticks, log_ticks, plot, seconds


def test_the_page_stands_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "study.html"
    assert main(["study", "--workload", "mix", "--load", "0.7", "--requests", "60", "--html", str(file)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("SIMULATED")
    assert str(file) in printed.err
    page = file.read_text(encoding="utf-8")
    assert not re.search(r"https?:|<script|<link|@import|url\(", page)
    assert page.count('role="img"') == 5
    assert "Simulated." in page
    assert "prefers-color-scheme:dark" in page
    for policy in ("direct", "fixed-window", "doublebuffer"):
        assert page.count(f'<polyline class="line {policy}"') == 5
    assert "mix, rtx4090-vllm, load 0.7, seed 1" in page


def test_a_page_that_cannot_be_written_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--workload", "chat", "--clients", "1", "--requests", "5", "--html", "/nowhere/at/all.html"]
    assert main(["study", *flags]) == 2
    told = capsys.readouterr()
    assert "--html" in told.err
    assert told.out == "", "nothing was computed for it"


def test_ticks_are_round_and_around_all() -> None:
    assert linear_ticks(87.0) == [0, 20, 40, 60, 80, 100]
    assert linear_ticks(0.0) == [0, 1]
    assert linear_ticks(3.0)[-1] >= 3.0
    assert log_ticks(0.07, 131.0) == pytest.approx([0.01, 0.1, 1, 10, 100, 1000])
    assert log_ticks(1.0, 1.0) == pytest.approx([1, 10])


def test_a_plot_leaves_out_what_is_not_known() -> None:
    drawn = plot({"direct": [(0.5, 1.0), (0.7, math.nan), (0.9, 2.0)]}, label="x < y", x_name="load", log=True)
    assert drawn.count("<circle") == 2
    assert "nan" not in drawn
    assert "x &lt; y" in drawn
    assert plot({"direct": [(0.5, math.nan)]}, label="", x_name="") == ""


def test_times_are_said_as_people_do() -> None:
    assert [seconds(value) for value in (0.0753, 1.0, 45.12, 131.4)] == ["75 ms", "1 s", "45.1 s", "131 s"]

"""What a bench gives out: text, JSON that is JSON, and a page that stands alone."""

from __future__ import annotations

import io
import json
import re

import pytest

from bench.counters import Counters
from bench.page import page
from bench.progress import Progress
from bench.report import Report, to_json
from bench.rows import Ratio, Run
from bench.table import RATIO_FIELDS, cores_table, ratios_table
from tests.bench.answers import answer, report, run


def runs() -> list[Run]:
    made: list[Run] = []
    for number in (1, 2):
        for way, first_s in (("direct", 8.0), ("gateway", 0.2)):
            answers = [answer(at, first_s=first_s, sent_at=at / 10) for at in range(20)]
            answers.append(answer(20, "slow", first_s=30.0, gateway_lane="normal" if way == "gateway" else ""))
            made.append(run(way, number, answers, Counters({"fast": 0.1}, 10.0, 12.0, 0.0)))  # type: ignore[arg-type]
    return made


def made(**more: object) -> Report:
    return report(runs(), **more)  # type: ignore[arg-type]


def test_the_text_says_first_what_the_figures_are() -> None:
    text = made(speed=10.0).text()
    assert text.startswith("SIMULATED")
    assert "TIME SCALED: the engine runs 10 times" in text
    assert "Load 1 is much." in text
    assert re.search(r"^gateway +all +42", text, re.MULTILINE)
    assert "2 requests went to another lane" in text
    assert "SIMULATED" not in made(simulated="").text()


def test_the_json_has_everything_but_the_key_and_no_nan() -> None:
    text = to_json(made())
    told = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert "a key of mine" not in text
    assert told["simulated"] == "rtx4090-vllm"
    assert {row["way"] for row in told["rows"]} == {"direct", "gateway"}
    assert [len(one["requests"]) for one in told["runs"]] == [21] * 4
    ratio = next(one for one in told["ratios"] if (one["lane"], one["of"]) == ("fast", "first_p95_ms"))
    assert ratio["median"] == pytest.approx(0.025)
    assert told["rows"][0]["batch"] is None
    assert told["machine"]["cores"]


def test_the_page_stands_alone_and_escapes() -> None:
    html = page(made(workload="<b>&trace"))
    assert not re.search(r"https?:|<script|<link|@import|url\(", html)
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;trace" in html
    assert "SIMULATED" in html
    assert "prefers-color-scheme:dark" in html
    assert html.count('role="img"') == 5, "two lanes, the pace, the queue, the throughput"
    assert "95 of 100 short chats have their first word within <strong>200 ms</strong>" in html
    assert "nan" not in html


def test_a_page_of_nothing_answered_is_a_page() -> None:
    failed = [run(way, 1, [answer(0, outcome="failed", trouble="cut off")]) for way in ("direct", "gateway")]  # type: ignore[arg-type]
    made = report(failed)
    assert "Nothing was answered both ways." in page(made)
    assert "some requests failed: cut off" in made.text()
    json.loads(to_json(made))


def test_processes_are_told_by_their_share_of_a_core() -> None:
    assert re.search(r"engine +20.0 % +20.0 %", cores_table(runs()))


def test_large_ratios_keep_their_columns() -> None:
    ratios = [Ratio("fast", name, 0.99931, 0.5, 123.456) for name in RATIO_FIELDS]
    assert ratios_table(ratios).count("0.9993 (0.5000-123.5)") == len(RATIO_FIELDS)


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    outputs = [Terminal(), io.StringIO()]
    for output in outputs:
        progress = Progress(42, 1, to=output)
        progress.begins("direct", 1)
        for one in runs()[0].answers:
            progress.ended(one)
        progress.done(runs()[0])
    bar, lines = (output.getvalue() for output in outputs)
    assert "\r\x1b[K[" in bar
    assert "0/42" in bar
    assert lines == "round 1 of 1, direct: 21 of 21 answered in 30.2 s\n"
    assert bar.endswith(lines)

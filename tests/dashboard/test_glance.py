"""Sentences and figures, made of what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from buffer.glance import away, figures, for_admins, glance
from buffer.overview import EngineView, JobView, LaneView, LetterView, Overview, QueueView, WorkerView
from buffer.recent import SLOT_S, SLOTS, last_slot, read_counts
from buffer.verdict import Minute, judge

WORKER = WorkerView(id="w", age_s=3.0, backends=["big"], draining=False)


def engine(name: str = "big", **changes: Any) -> EngineView:
    facts: dict[str, Any] = {
        "name": name, "kind": "vllm", "pool": "default", "state": "up", "error": "", "jobs": 0,
        "limit": 8, "kv": 0, "kv_tokens": 1000, "reading": 0, "models": ["m"],
        "model_count": 1, "loaded": [], "fallback_for": [],
        "simulated": False,
    }  # fmt: skip
    return EngineView(**(facts | changes))


def seen(engines: Sequence[EngineView], *, waiting: int = 0, oldest_s: float = 0.0, **more: Any) -> Overview:
    lane = LaneView(name="fast", waiting=waiting, oldest_s=oldest_s, running=sum(each.jobs for each in engines))
    return Overview(**({"at": 1000.0, "lanes": [lane], "engines": list(engines), "workers": [WORKER]} | more))


@pytest.mark.parametrize(
    ("overview", "minute", "level", "says", "why"),
    [
        (seen([engine()]), Minute(), "ok", "All is well. Nobody waits.", []),
        (seen([engine(jobs=1)]), Minute(), "ok", "All is well. One is under way, nobody waits.", []),
        (
            seen([engine(jobs=8)], waiting=3, oldest_s=2.0),
            Minute(),
            "ok",
            "All is well. 8 under way, 3 wait, the longest for 2.0 s.",
            ["All 8 places are taken."],
        ),
        (
            seen([engine(jobs=8), engine("small", jobs=1, kv=990)], waiting=12, oldest_s=75.0),
            Minute(),
            "strained",
            "Busy. 9 under way, 12 wait, the longest for 75 s.",
            ["All places are taken at big.", "The memory for prompts and answers is claimed at small."],
        ),
        (
            seen([engine(), engine("small", state="down", error="Back end 'small' cannot be reached.")]),
            Minute(),
            "strained",
            "1 of 2 back ends can be reached. Nobody waits.",
            ["Back end 'small' cannot be reached."],
        ),
        (
            seen(
                [engine(), engine("small", jobs=8, models=["tiny"])],
                waiting=4,
                queues=[QueueView(model="tiny", waiting=4, engines=["small"])],
            ),
            Minute(),
            "ok",
            "All is well. 8 under way, 4 wait.",
            ["They wait for tiny, which is served by small.", "All places are taken at small."],
        ),
        (
            seen([engine(state="down")]),
            Minute(),
            "broken",
            "The back end big cannot be reached.",
            ["big was not reached."],
        ),
        (seen([engine()], workers=[]), Minute(), "broken", "No worker is running, so nothing is answered.", []),
        (seen([]), Minute(), "broken", "No back end is known yet, so nothing can be answered.", []),
        (
            seen([engine(state="open")]),
            Minute(),
            "strained",
            "Jobs are kept from big. Nobody waits.",
            ["big: several jobs failed there in a row, so none is sent for some seconds."],
        ),
        (
            seen([engine()]),
            Minute(ended=20, failed=3, first_p50_s=4.0, wait_p50_s=3.0),
            "strained",
            "Requests fail. Nobody waits.",
            [
                "3 of 20 requests failed in the last minute.",
                "In the last minute the median first word took 4.0 s, 3.0 s of it waiting.",
            ],
        ),
    ],
)
def test_a_sentence_says_how_it_is(overview: Overview, minute: Minute, level: str, says: str, why: list[str]) -> None:
    verdict = judge(overview, minute)
    assert (verdict.level, verdict.says, verdict.why) == (level, says, why)


def test_of_many_dead_engines_some_are_named() -> None:
    verdict = judge(seen([engine(f"e{i}", state="down", error="It is away") for i in range(20)]), Minute())
    assert verdict.says == "No back end can be reached."
    assert verdict.why == ["e0: It is away.", "e1: It is away.", "e2: It is away.", "17 more back ends are down."]


def test_a_spare_that_rests_is_no_trouble() -> None:
    resting = engine("spare", state="spare")
    assert judge(seen([engine(), resting]), Minute()).says == "All is well. Nobody waits."
    starting = judge(seen([engine(), engine("spare", state="starting")]), Minute())
    assert (starting.level, starting.why) == ("ok", ["spare is being started."])


def test_titles_and_tags_that_wait_worry_nobody() -> None:
    background = LaneView(name="background", waiting=40, oldest_s=300.0)
    assert judge(seen([engine()], lanes=[background]), Minute()).level == "ok"


def test_figures_are_of_what_was_counted() -> None:
    last = last_slot(1000.0)
    slots = {
        last: read_counts({"first:fast:40": 3, "wait:fast:8": 3, "tokens:big": 150, "batch:2": 2, "ended:ok": 3}),
        last - 20: read_counts({"ended:backend_error": 1, "batch:4": 1}),
    }
    known = figures(slots, 1000.0)
    told = glance(seen([engine()]), known)
    history = told["history"]
    assert history["tokens_per_s"][-1] == 10.0
    assert history["end"] == (last + 1) * SLOT_S
    assert len({len(history[name]) for name in ("first_p50_s", "wait_p95_s", "tokens_per_s", "batch")}) == 1
    assert history["first_p50_s"][0] is None
    assert 0.9 < told["minute"]["first_p50_s"] < 1.3
    assert (told["minute"]["ended"], told["minute"]["failed"]) == (3, 0)
    assert told["batches"] == {"2": 2, "4": 1}
    assert told["lanes"][0]["first_p50_s"] == told["minute"]["first_p50_s"]
    assert told["engines"][0]["tokens_per_s"] == 10.0
    assert told["cache"] is None


def test_the_cache_is_told_of_once_it_was_asked() -> None:
    last = last_slot(1000.0)
    found = read_counts({"cache:hit": 2, "cache:joined": 1, "cache:miss": 3, "cache:bypass": 7})
    told = glance(seen([engine()]), figures({last: found}, 1000.0))
    assert told["cache"] == {"spared": 0.5, "asked": 6}
    assert told["history"]["spared"][-1] == 0.5
    long_ago = glance(seen([engine()]), figures({last - 100: found}, 1000.0))
    assert long_ago["cache"] == {"spared": None, "asked": 0}
    assert long_ago["history"]["spared"][-1] is None


def test_points_that_do_not_change_are_kept() -> None:
    first = figures({last_slot(1000.0): read_counts({"tokens:big": 150})}, 1000.0)
    assert figures({}, 1001.0, first) is first
    later = figures({}, 1300.0, first)
    assert 10.0 in later.history()["tokens_per_s"]
    assert len(later.history()["batch"]) == len(first.history()["batch"]) <= SLOTS


def test_ids_are_told_in_part_and_to_admins_only() -> None:
    overview = seen(
        [engine()],
        under_way=[JobView(ref="ab12", lane="fast", engine="big", age_s=1.0)],
        letters=[LetterView(ref="cd34", at=1.0, lane="fast", model="m", reason="It failed.")],
        dead=1,
        refs={"ab12": "ab12" * 8},
    )
    told = repr(glance(overview, figures({}, 1000.0)))
    assert "ab12" not in told
    assert "cd34" not in told
    assert "It failed." not in told
    assert "ab12ab12" not in repr(for_admins(overview))
    assert for_admins(overview)["letters"][0]["reason"] == "It failed."


def test_while_the_store_is_away_the_last_look_stands() -> None:
    before = glance(seen([engine(jobs=2)]), figures({}, 1000.0))
    told = away("Redis cannot be reached.", 1007.0, before)
    assert told["verdict"]["says"] == "Redis cannot be reached."
    assert (told["at"], told["engines"][0]["jobs"], told["store"]["seen"]) == (1000.0, 2, True)
    assert away("Redis cannot be reached.", 1007.0, None)["store"] == {
        "reason": "Redis cannot be reached.",
        "seen": False,
    }

"""The checks of the chaos runs are tried themselves: each flaw of an answer is seen, and a plan keeps its rules."""

from __future__ import annotations

import itertools
from dataclasses import astuple

import pytest

from tests.chaos.asks import ask
from tests.chaos.schedule import PER_MINUTE, STORE, Sizes, plan
from tests.chaos.text import Task, asked, flaws

TASK = Task("c1r2", 30, 2)
TEXT = TASK.text()
SIZES = Sizes(workers=3, gateways=2, engines=2)


def test_a_prompt_tells_its_answer() -> None:
    assert asked(TASK.prompt(padding=100)) == TASK
    assert "".join(TASK.tokens()) == TEXT
    assert TASK.tokens() == TASK.tokens()
    assert TEXT.split()[29] == "c1r2·30"


@pytest.mark.parametrize("length", [0, 1, 7, 100, len(TEXT) - 1, len(TEXT)])
def test_what_was_said_is_gone_on_from_at_any_character(length: int) -> None:
    rest = TASK.rest(TEXT[:length])
    assert rest is not None
    assert "".join(rest) == TEXT[length:]
    assert all(rest)


def test_what_was_not_said_is_not_gone_on_from() -> None:
    assert TASK.rest("c1r3·1") is None
    assert TASK.rest(TEXT + " ") is None


def without(*gone: int) -> str:
    return " ".join(word for i, word in enumerate(TEXT.split(), 1) if i not in gone)


@pytest.mark.parametrize(
    ("got", "whole", "counts"),
    [
        (TEXT, True, (0, 0, 0, 0)),
        (TEXT[:50], False, (0, 0, 0, 0)),
        ("", False, (0, 0, 0, 0)),
        (without(30), True, (1, 0, 0, 0)),
        (TEXT[:-1], True, (1, 0, 0, 0)),
        (without(4, 5), True, (2, 0, 0, 0)),
        (without(4, 5)[:100], False, (2, 0, 0, 0)),
        (f"{TEXT} c1r2·30", True, (0, 1, 0, 0)),
        (TEXT[:48] + TEXT[32:], True, (0, 2, 0, 0)),
        (TEXT.replace("c1r2·4 c1r2·5", "c1r2·5 c1r2·4"), True, (0, 0, 1, 0)),
        (TEXT.replace("c1r2·4 ", "c9r9·4 "), True, (1, 0, 0, 1)),
        (TEXT.replace("c1r2·4 ", "c1r2·4"), True, (0, 0, 0, 1)),
        ("", True, (30, 0, 0, 0)),
    ],
)
def test_each_flaw_is_told_as_what_it_is(got: str, whole: bool, counts: tuple[int, int, int, int]) -> None:
    assert astuple(flaws(TASK, got, whole=whole)) == counts


@pytest.mark.parametrize("seconds", [60.0, 600.0])
@pytest.mark.parametrize("seed", range(20))
def test_a_plan_has_every_kind_and_keeps_the_store_s_faults_apart(seed: int, seconds: float) -> None:
    faults = plan(seed, seconds, SIZES, lease_s=3.0, stall_s=3.0)
    assert faults == plan(seed, seconds, SIZES, lease_s=3.0, stall_s=3.0)
    assert {fault.kind for fault in faults} == set(PER_MINUTE)
    stores = [fault for fault in faults if fault.kind in STORE]
    for one, other in itertools.pairwise(stores):
        assert one.at_s + one.for_s + 3.0 <= other.at_s
    for part in ("worker", "gateway", "engine"):
        for target in range(3):
            own = [f for f in faults if f.kind.startswith(part) and f.target == target]
            assert all(a.at_s + a.for_s < b.at_s for a, b in itertools.pairwise(own))
    assert plan(seed + 1, seconds, SIZES, lease_s=3.0, stall_s=3.0) != faults


def test_what_is_asked_is_settled_by_the_seed() -> None:
    some = [ask(1, client, turn, gateways=2, words=(5, 9)) for client in range(50) for turn in range(4)]
    assert some == [ask(1, client, turn, gateways=2, words=(5, 9)) for client in range(50) for turn in range(4)]
    assert len({one.task.marker for one in some}) == 200
    assert {(one.api, one.model, one.stream) for one in some} == {
        (api, model, stream)
        for api in ("openai", "ollama")
        for model in ("m-vllm", "m-ollama")
        for stream in (True, False)
    }

"""Prompts are as long as the workload says, and no two begin alike unless it says so."""

from __future__ import annotations

import json

import pytest

from bench.processes import BenchError
from bench.prompts import SIMULATED, Prompts, Tongue, body_of
from bench.tongue import LONG_CHARS, SHORT_CHARS, tongue_of
from simulate.prompt import render
from simulate.workload import WORKLOADS, Arrival


@pytest.mark.parametrize("tokens", [6, 7, 20, 29, 30, 31, 60, 512, 4_000, 24_000, 85_000])
def test_the_simulated_engine_counts_them_exactly(tokens: int) -> None:
    messages = Prompts(SIMULATED, seed=1).messages(Arrival(0.0, tokens, 1), 0, salt="direct 1")
    assert render(messages).tokens == tokens
    assert len(messages[-1]["content"]) < 100, "a long question would change the lane"
    assert messages[-1]["role"] == "user"


def test_no_two_share_a_block_of_the_prefix_cache() -> None:
    prompts = Prompts(SIMULATED, seed=1)
    arrivals = WORKLOADS["mix"].draw(40, 1)
    first = set()
    for salt in ("direct 1", "gateway 1", "direct 2"):
        for number, arrival in enumerate(arrivals):
            first.add(render(prompts.messages(arrival, number, salt=salt)).blocks[0])
    assert len(first) == 3 * len(arrivals)


def test_the_same_seed_gives_the_same_words() -> None:
    arrival = Arrival(0.0, 300, 1)
    one, same = (Prompts(SIMULATED, seed=7).messages(arrival, 3, salt="x") for _ in range(2))
    assert one == same
    assert one != Prompts(SIMULATED, seed=8).messages(arrival, 3, salt="x")


def test_shared_beginnings_are_shared_within_a_run_and_not_between_runs() -> None:
    prompts = Prompts(SIMULATED, seed=1)
    long, short = Arrival(0.0, 1_000, 1, shared_tokens=800), Arrival(0.0, 2_000, 1, shared_tokens=400)
    one, other = (render(prompts.messages(each, at, salt="a")) for at, each in enumerate((long, short)))
    assert (one.tokens, other.tokens) == (1_000, 2_000)
    common = sum(mine == theirs for mine, theirs in zip(one.blocks, other.blocks, strict=False))
    assert abs(common * 16 - 400) <= 32
    again = render(prompts.messages(long, 0, salt="b"))
    assert not set(again.blocks) & set(one.blocks)


def test_a_real_engine_s_way_to_count_is_learned_from_two_questions() -> None:
    tongue = tongue_of(50 + 12, 550 + 12)
    assert tongue.chars_per_token == pytest.approx(4.0)
    assert tongue.alone_frame == pytest.approx(4 * 62 - SHORT_CHARS)
    wide = Tongue(5.0, 40.0, 60.0)
    messages = Prompts(wide, seed=1).messages(Arrival(0.0, 1_000, 1), 0, salt="x")
    assert sum(len(message["content"]) for message in messages) == 1_000 * 5 - 60
    with pytest.raises(BenchError):
        tongue_of(LONG_CHARS, SHORT_CHARS)


def test_a_body_asks_for_an_answer_of_its_length() -> None:
    body = json.loads(body_of([{"role": "user", "content": "x"}], model="m", tokens=128))
    assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (128, True, True)
    assert body["stream_options"] == {"include_usage": True}

"""The policies in virtual time."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from doublebuffer.cli import main
from simulate.cost import profile_named
from simulate.doors import Direct
from simulate.orders import make_engine
from simulate.study import Case, arrivals_of, block_tokens, door_of, lane_of, run, segment_tokens, sizes, study
from simulate.study_door import Doublebuffer
from simulate.study_rows import Row, percentile
from simulate.virtual import Ask, Outcome, play
from simulate.workload import MIX, WORKLOADS, Arrival

MIX_ON_VLLM = Case("mix", "rtx4090-vllm", 0.95, requests=250)


def of(rows: list[Row], policy: str, lane: str = "all") -> Row:
    return next(row for row in rows if row.policy == policy and row.lane == lane)


def played(case: Case, arrivals: list[Arrival]) -> tuple[Outcome, Doublebuffer]:
    """Through the product's door, which is given back to be looked at."""
    profile = case.engine_profile()
    block = block_tokens(profile)
    door = door_of("doublebuffer", case)
    assert isinstance(door, Doublebuffer)
    lanes = [lane_of(one) for one in arrivals]
    return play(make_engine(profile, block_tokens=block), door, arrivals, lanes, clients=case.clients), door


def answered(ask: Ask) -> bool:
    return ask.at <= ask.sent_at < ask.first_at <= ask.ended_at and ask.answer_tokens == ask.arrival.output_tokens


def test_short_chats_do_not_wait_for_documents_and_the_engine_does_as_much() -> None:
    rows = study(MIX_ON_VLLM, 1)
    direct, ours = (of(rows, policy, "fast") for policy in ("direct", "doublebuffer"))
    assert ours.ttft_p95_ms <= 150 < direct.ttft_p95_ms / 50
    assert of(rows, "doublebuffer", "normal").ttft_p95_ms <= 0.4 * of(rows, "direct", "normal").ttft_p95_ms
    assert of(rows, "doublebuffer").tokens_per_s >= 0.99 * of(rows, "direct").tokens_per_s
    assert of(rows, "doublebuffer").preemptions == 0


def test_the_same_seed_is_the_same_run_and_another_is_another() -> None:
    case = replace(MIX_ON_VLLM, requests=80)
    assert study(case, 2) == study(case, 2)
    assert sizes(MIX_ON_VLLM, 2) != sizes(MIX_ON_VLLM, 3)


@pytest.mark.parametrize(
    "case",
    [
        MIX_ON_VLLM,
        Case("mix85k", "h100-vllm", 1.2, requests=60),
        Case("mix", "rtx4090-ollama", 1.1, requests=300, slots=4),
        Case("mix", "rtx4090-ollama", 0.9, requests=100, slots=1),
        Case("mix", "rtx4090-vllm", clients=40, requests=200),
    ],
    ids=lambda case: f"{case.workload}-{case.profile}-{case.load or case.clients}-{case.slots}",
)
def test_every_request_is_answered_whole_and_nothing_is_left_in_the_books(case: Case) -> None:
    outcome, door = played(case, arrivals_of(case, 1))
    assert len(outcome.asks) == case.count
    assert all(answered(ask) for ask in outcome.asks)
    load = door._flight.load
    assert (load.jobs, load.kv, load.prefill, load.long) == (0, 0, 0, 0)
    assert not len(door._lineup)


def test_a_document_is_not_passed_for_ever() -> None:
    """Chats come twice as fast as the engine can answer them. Those that came within a minute after the document go
    before it, which takes them two; then it begins, and half of the chats are still to come.
    """
    chats = [Arrival(index * 0.1, 400, 200) for index in range(2_000)]
    arrivals = sorted([*chats, Arrival(5.0, 24_000, 100)], key=lambda one: one.at_s)
    outcome, _ = played(Case("mix", "rtx4090-vllm", 1.0), arrivals)
    (document,) = (ask for ask in outcome.asks if ask.lane == "slow")
    assert document.wait_s < 145
    assert document.ended_at < outcome.ended_at - 180


def test_alone_before_an_idle_engine_a_request_loses_only_the_way_there() -> None:
    rows = study(Case("chat", "rtx4090-vllm", clients=1, requests=50), 1)
    direct, ours = of(rows, "direct"), of(rows, "doublebuffer")
    assert 0 < ours.ttft_p99_ms - direct.ttft_p99_ms <= 3
    assert ours.tokens_per_s >= 0.995 * direct.tokens_per_s
    assert of(rows, "fixed-window").ttft_p50_ms == pytest.approx(direct.ttft_p50_ms + 50, abs=1)


def test_what_is_refused_is_told_and_who_is_let_in_does_not_wait_longer_than_was_said() -> None:
    rows = study(Case("refusal", "rtx4090-vllm", 1.3, requests=500), 2)
    ours = of(rows, "doublebuffer")
    assert 0 < ours.refused < 100
    assert ours.max_wait_s <= 90
    assert of(rows, "doublebuffer", "fast").ttft_p95_ms <= 600
    assert ours.preemptions == 0 < of(rows, "direct").preemptions


def test_what_an_engine_cannot_take_is_refused_and_the_loop_goes_on() -> None:
    arrivals = [Arrival(0.0, 60_000, 10), Arrival(0.0, 100, 10), Arrival(0.0, 100, 10)]
    case = Case("mix", "rtx4090-vllm", clients=1)
    outcome, _ = played(case, arrivals)
    assert [(ask.refused, answered(ask)) for ask in outcome.asks] == [(True, False), (False, True), (False, True)]
    profile = case.engine_profile()
    lanes = [lane_of(one) for one in arrivals]
    direct = play(make_engine(profile), Direct(block_tokens(profile)), arrivals, lanes, clients=1)
    assert [ask.refused for ask in direct.asks] == [True, False, False]
    assert not math.isnan(direct.asks[2].ended_at)


def test_a_prompt_that_the_engine_knows_begins_where_it_is_new() -> None:
    """Of a shared beginning only the first reading costs time."""
    arrivals = [Arrival(0.0, 8_192, 10), *(Arrival(20.0 * (1 + n), 8_192, 10, 8_064) for n in range(3))]
    outcome, _ = played(Case("mix", "rtx4090-vllm", 1.0), arrivals)
    first, second, third, _ = (ask.ttft_s for ask in outcome.asks)
    assert first > 1
    assert second > 1
    assert third < 0.1


def test_a_trace_begins_elsewhere_for_each_seed_and_goes_round() -> None:
    trace = tuple(Arrival(float(index), 100 + index, 10) for index in range(10))
    case = Case("trace", "rtx4090-vllm", 1.0, requests=8, trace=trace)
    assert [one.prompt_tokens for one in sizes(case, 1)] == list(range(100, 108))
    second = sizes(case, 2)
    assert [one.prompt_tokens for one in second] == [108, 109, *range(100, 106)]
    assert second[0].at_s == 0
    assert all(before.at_s < after.at_s for before, after in pairwise(second))


def test_the_load_is_a_share_of_what_direct_sustains() -> None:
    heavy, light = (arrivals_of(replace(MIX_ON_VLLM, load=load), 1) for load in (0.95, 0.475))
    assert light[-1].at_s == pytest.approx(2 * heavy[-1].at_s)
    outcome = run(MIX_ON_VLLM, 1, "direct", heavy)
    assert outcome.ended_at == pytest.approx(heavy[-1].at_s, rel=0.15)


def test_segments_go_by_the_card() -> None:
    assert segment_tokens(profile_named("h100-vllm")) == 2 * segment_tokens(profile_named("rtx4090-vllm")) == 1_024


def test_percentiles_are_values_that_were_there() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(range(1, 101), 0.95) == 95
    assert math.isnan(percentile([], 0.5))


def test_the_command_prints_rows_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "small.csv"
    lines = [f"{index * 0.5},{120 if index % 4 else 3_000},20" for index in range(40)]
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *lines]), encoding="utf-8")
    assert main(["study", "--trace", str(trace), "--load", "0.7", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["policy"], row["lane"]) for row in rows} == {
        (policy, lane) for policy in ("direct", "fixed-window", "doublebuffer") for lane in ("all", "fast", "normal")
    }
    assert {row["workload"] for row in rows} == {"small"}
    assert all(row["seed"] == 1 and row["load"] == 0.7 and row["clients"] == 0 for row in rows)
    assert {row["count"] for row in rows if row["lane"] == "all"} == {40}


@pytest.mark.parametrize(
    "flags",
    [
        ["--load", "0.7"],
        ["--workload", "mix", "--load", "-1"],
        ["--workload", "mix", "--clients", "0"],
        ["--workload", "mix", "--profile", "abacus"],
        ["--trace", "/nowhere/at-all.csv"],
        ["--workload", "mix", "--slots", "0"],
        ["--seeds", "0"],
    ],
    ids=" ".join,
)
def test_a_wrong_flag_is_one_sentence(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", *flags]) == 2
    told = capsys.readouterr().err
    assert told.startswith("doublebuffer: ")
    assert told.count("\n") == 1


def test_workloads_are_those_that_are_documented() -> None:
    assert set(WORKLOADS) == {"chat", "mix", "mix85k", "refusal"}
    assert [size.prompt_tokens for size in MIX.sizes] == [60, 4_000, 24_000]

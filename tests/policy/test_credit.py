from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.credit import (
    Credit,
    Load,
    Need,
    claim_tokens,
    fits,
    for_waiting,
    limits,
    may_go_first,
    may_pass,
    reserved_slots,
)
from policy.lane import LANES, SHORT_LANES
from tests.policy.loads import load_of


def test_the_numbers_of_three_engines() -> None:
    assert limits(32, kv_tokens=39_000) == Credit(32, 37_830, 1024, 4, 4, 3120)
    assert limits(4, kv_tokens=4 * 8192, ollama=True, segment_tokens=None) == Credit(4, 31_784, 0, 2, 1, 2621)
    assert limits(1) == Credit(1, 0, 1024, 0, 0, 0)


@pytest.mark.parametrize(("slots", "reserved"), [(1, 0), (3, 0), (4, 1), (8, 1), (16, 2), (32, 4)])
def test_places_for_the_short_lanes(slots: int, reserved: int) -> None:
    assert reserved_slots(slots) == reserved


def test_only_short_lanes_take_the_last_places_and_the_last_memory() -> None:
    credit = limits(4, kv_tokens=1000)
    three = load_of([Need("normal", 10)] * 3)
    assert not fits(Need("normal", 10), three, credit)
    assert fits(Need("fast", 10), three, credit)
    assert fits(Need("thinking", 10), three, credit)
    full = load_of([Need("normal", 880)])
    assert not fits(Need("slow", 60), full, credit)
    assert fits(Need("fast", 60), full, credit)


def test_a_job_larger_than_everything_goes_alone() -> None:
    credit = limits(8, kv_tokens=1000)
    huge = Need("slow", 50_000, 50_000, True)
    assert fits(huge, Load(), credit)
    assert not fits(huge, load_of([Need("fast", 1)]), credit)


def test_long_prompts_and_prefill_are_capped() -> None:
    credit = limits(32, segment_tokens=512)
    long = Need("slow", 5000, 0, True)
    assert fits(long, load_of([long] * 3), credit)
    assert not fits(long, load_of([long] * 4), credit)
    reading = load_of([Need("normal", 900, 900)])
    assert not fits(Need("normal", 300, 300), reading, credit)
    assert fits(Need("fast", 300, 300), reading, credit)


needs = st.builds(Need, st.sampled_from(LANES), st.integers(1, 4000), st.integers(0, 4000), st.booleans())


@given(st.integers(1, 40), st.integers(0, 20_000), st.lists(needs, max_size=60))
def test_no_bound_is_ever_passed(slots: int, kv: int, jobs: list[Need]) -> None:
    credit = limits(slots, kv_tokens=kv)
    load = Load()
    held: list[Need] = []
    for need in jobs:
        if fits(need, load, credit):
            load.add(need)
            held.append(need)
    assert load.jobs <= slots
    assert not credit.kv or load.kv <= credit.kv or len(held) == 1
    assert not credit.long or load.long <= credit.long
    others = sum(1 for need in held if need.lane not in SHORT_LANES)
    assert others <= max(1, slots - credit.reserved_slots)
    for need in held:
        load.remove(need, prefill=need.prefill)
    assert load == Load()


def test_a_job_is_reckoned_with_half_of_its_answer() -> None:
    assert claim_tokens(4_000, 256) == 4_128
    assert claim_tokens(60, 1) == 60


def test_short_lanes_go_first_for_half_of_the_engine() -> None:
    credit = Credit(8, kv=1_000)
    chat = Need("fast", 100)
    assert may_go_first(chat, load_of([chat] * 3), credit)
    assert not may_go_first(chat, load_of([chat] * 4), credit)
    assert may_go_first(chat, load_of([Need("fast", 400)]), credit)
    assert not may_go_first(chat, load_of([Need("fast", 401)]), credit)
    assert not may_go_first(chat, Load(), Credit(1))


def test_who_passes_leaves_the_other_its_room() -> None:
    credit = Credit(32, kv=37_830, reserved_slots=4, kv_reserve=3_120)
    document, chat, middle = Need("slow", 24_256, long=True), Need("fast", 124), Need("normal", 4_128)
    assert may_pass(chat, document, load_of([middle] * 2), credit)
    assert may_pass(middle, document, load_of([middle]), credit)
    assert not may_pass(middle, document, load_of([middle] * 2), credit)
    assert not may_pass(Need("slow", 100, long=True), document, Load(), credit)


@given(st.lists(st.sampled_from([Need("fast", 300), Need("normal", 900), Need("thinking", 2_000)]), max_size=60))
def test_those_who_pass_never_keep_it_out_by_themselves(asking: list[Need]) -> None:
    credit = Credit(8, kv=10_000, reserved_slots=1, kv_reserve=800)
    document = Need("slow", 6_000)
    younger = Load()
    for need in asking:
        if may_pass(need, document, younger, credit) and fits(need, younger, credit):
            younger.add(need)
    assert fits(document, younger, credit)


def test_places_are_kept_free_only_while_nobody_waits_long_for_them() -> None:
    ollama, vllm = limits(4, ollama=True, segment_tokens=None), limits(32, kv_tokens=39_000)
    assert for_waiting(ollama, 15.0, 60.0).reserved_slots == 1
    assert for_waiting(ollama, 15.1, 60.0).reserved_slots == 0
    assert for_waiting(vllm, 100.0, 60.0) == vllm

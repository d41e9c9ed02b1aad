from dataclasses import replace

import pytest

from simulate.cost import RTX4090_VLLM, prefill_s
from simulate.sequence import RefusedError, Request
from simulate.vllm import VllmEngine
from tests.simulate.engines import run

SMALL = replace(RTX4090_VLLM, kv_tokens=1_000, context_length=1_000, slots=4)


def test_one_request_alone() -> None:
    engine = VllmEngine(RTX4090_VLLM)
    out = run(engine, [(0.0, Request("a", 512, 256))])
    assert out.first_at["a"] == pytest.approx(RTX4090_VLLM.fixed_s + prefill_s(RTX4090_VLLM, 512))
    rate = 255 / (out.finished_at["a"] - out.first_at["a"])
    assert 55 < rate < 58
    assert out.steps == 256
    assert engine.held == 0
    assert engine.generated_tokens == 256


def test_a_long_prompt_takes_the_whole_budget_and_blocks_those_behind_it() -> None:
    engine = VllmEngine(RTX4090_VLLM)
    out = run(
        engine, [(0.0, Request("early", 60, 200)), (0.1, Request("long", 24_000, 1)), (0.2, Request("short", 60, 1))]
    )
    assert out.first_at["short"] - 0.2 > 4
    assert out.first_at["short"] == pytest.approx(out.first_at["long"], abs=0.05)
    assert out.finished_at["early"] > out.first_at["long"], "it decodes between the chunks"


def test_a_head_that_does_not_fit_blocks_all_behind_it() -> None:
    engine = VllmEngine(SMALL)
    out = run(
        engine, [(0.0, Request("runs", 600, 50)), (0.0, Request("head", 500, 1)), (0.0, Request("behind", 10, 1))]
    )
    assert out.finished_at["runs"] <= out.first_at["head"] <= out.first_at["behind"]


def test_slots_bound_what_runs() -> None:
    engine = VllmEngine(SMALL)
    for number in range(6):
        engine.submit(Request(number, 10, 100), 0.0)
    engine.step(1.0)
    assert len(engine.running) == 4
    assert engine.waiting == 2


def test_under_kv_pressure_the_last_one_admitted_is_computed_again() -> None:
    engine = VllmEngine(SMALL)
    out = run(engine, [(0.0, Request("first", 400, 300)), (0.0, Request("second", 400, 300))])
    assert engine.preemptions == 1
    assert out.kv_peak <= 1_000
    assert out.finished == ["first", "second"]
    assert out.finished_at["second"] > out.finished_at["first"] + 1.0
    assert engine.generated_tokens == 600
    assert engine.prompt_tokens == 800, "a prompt counts once, however often it is read"


def test_a_preempted_one_has_its_first_token_once() -> None:
    engine = VllmEngine(SMALL)
    engine.submit(Request("first", 400, 300), 0.0)
    second = engine.submit(Request("second", 400, 300), 0.0)
    now, first, written = 1.0, 0, 0
    while (step := engine.step(now)) is not None:
        now += step.duration_s
        first += sum(sequence is second for sequence in step.first)
        assert engine.generated(second) >= written
        written = engine.generated(second)
    assert (first, written) == (1, 300)


def test_too_long_for_the_context() -> None:
    engine = VllmEngine(SMALL)
    with pytest.raises(RefusedError) as refused:
        engine.submit(Request("a", 1_000, 1), 0.0)
    assert refused.value.reason == "too_long"
    sequence = engine.submit(Request("a", 900, 500), 0.0)
    assert sequence.cut
    assert sequence.output == 100
    assert run(engine, []).finished == ["a"]


def test_an_id_is_inside_once() -> None:
    engine = VllmEngine(SMALL)
    engine.submit(Request("a", 10, 1), 0.0)
    with pytest.raises(ValueError, match="already"):
        engine.submit(Request("a", 10, 1), 0.0)
    run(engine, [])
    engine.submit(Request("a", 10, 1), 9.0)


def test_a_known_prefix_is_not_read_again() -> None:
    engine = VllmEngine(RTX4090_VLLM)
    blocks = tuple(range(250))
    cold = run(engine, [(0.0, Request("cold", 4_000, 1, blocks=blocks))])
    warm = run(engine, [(10.0, Request("warm", 4_016, 1, blocks=(*blocks, 999)))])
    assert cold.first_at["cold"] > 0.6
    assert warm.first_at["warm"] - 10 < 0.05
    assert engine.cached_tokens == 4_000
    assert engine.held == 0


def test_a_prompt_that_is_known_whole_still_reads_a_token() -> None:
    engine = VllmEngine(SMALL)
    blocks = tuple(range(10))
    run(engine, [(0.0, Request("a", 160, 1, blocks=blocks))])
    sequence = engine.submit(Request("b", 160, 1, blocks=blocks), 1.0)
    run(engine, [])
    assert sequence.cached == 144


def test_sequences_side_by_side_share_their_prefix() -> None:
    engine = VllmEngine(SMALL)
    blocks = tuple(range(30))
    for name in ("a", "b", "c"):
        engine.submit(Request(name, 480, 10, blocks=blocks), 0.0)
    engine.step(1.0)
    engine.step(1.1)
    assert len(engine.running) == 3, "three prompts of 480 fit into 1,000 tokens"
    assert engine.held < 600
    run(engine, [])
    assert engine.held == 0


def test_remembered_blocks_make_room_oldest_first() -> None:
    engine = VllmEngine(SMALL)
    old, new = tuple(range(25)), tuple(range(100, 125))
    run(engine, [(0.0, Request("old", 400, 1, blocks=old)), (1.0, Request("new", 400, 1, blocks=new))])
    run(engine, [(2.0, Request("large", 500, 1))])
    again = engine.submit(Request("new again", 400, 1, blocks=new), 3.0)
    gone = engine.submit(Request("old again", 400, 1, blocks=old), 3.0)
    run(engine, [])
    assert again.cached == 384
    assert gone.cached < 384


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_cancelling_frees_the_kv(steps: int) -> None:
    engine = VllmEngine(replace(SMALL, step_budget=128))
    engine.submit(Request("a", 300, 50, blocks=tuple(range(18))), 0.0)
    engine.submit(Request("b", 100, 50), 0.0)
    for number in range(steps):
        engine.step(1.0 + number)
    assert engine.cancel("a")
    assert not engine.cancel("a")
    run(engine, [])
    assert engine.held == 0
    assert engine.finished == 1
    engine.submit(Request("c", 990, 5), 50.0)
    assert run(engine, []).finished == ["c"]


def test_a_cancelled_head_lets_the_next_one_in() -> None:
    engine = VllmEngine(SMALL)
    for request in (Request("runs", 600, 300), Request("head", 500, 1), Request("behind", 10, 1)):
        engine.submit(request, 0.0)
    engine.step(1.0)
    engine.cancel("head")
    step = engine.step(1.1)
    assert step is not None
    assert [sequence.request.id for sequence in step.first] == ["behind"]

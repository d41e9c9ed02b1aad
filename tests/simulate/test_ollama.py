import pytest

from simulate.cost import prefill_s, profile_named
from simulate.ollama import LOAD_S, OllamaEngine
from simulate.sequence import RefusedError, Request
from tests.simulate.engines import run

ONE = profile_named("rtx4090-ollama")
FOUR = profile_named("rtx4090-ollama", slots=4)


def test_one_slot_is_one_at_a_time_in_order_of_arrival() -> None:
    out = run(OllamaEngine(ONE), [(0.0, Request(name, 100, 20)) for name in "abc"])
    assert out.finished == ["a", "b", "c"]
    assert out.finished_at["a"] < out.first_at["b"] < out.finished_at["b"] < out.first_at["c"]


def test_512_wait_and_the_next_is_refused() -> None:
    engine = OllamaEngine(FOUR)
    for number in range(4 + 512):
        engine.submit(Request(number, 10, 10), 0.0)
    with pytest.raises(RefusedError) as refused:
        engine.submit(Request("late", 10, 10), 0.0)
    assert refused.value.reason == "busy"
    engine.step(1.0)
    assert (len(engine.running), engine.waiting) == (4, 512)
    with pytest.raises(RefusedError):
        engine.submit(Request("late", 10, 10), 1.0)
    assert engine.cancel(100)
    engine.submit(Request("late", 10, 10), 1.0)


def test_prompts_are_read_in_turns() -> None:
    out = run(OllamaEngine(FOUR), [(0.0, Request("long", 8_000, 1)), (0.0, Request("short", 60, 1))])
    assert out.first_at["short"] < 0.3
    assert out.first_at["long"] > 1.5


def test_a_long_prompt_is_cut_at_num_ctx() -> None:
    engine = OllamaEngine(ONE)
    sequence = engine.submit(Request("a", 24_000, 1), 0.0)
    out = run(engine, [])
    assert sequence.prompt == 8_192
    assert out.first_at["a"] == pytest.approx(ONE.fixed_s + prefill_s(ONE, 8_192))


def test_an_answer_goes_on_past_num_ctx() -> None:
    engine = OllamaEngine(profile_named("rtx4090-ollama", num_ctx=256))
    sequence = engine.submit(Request("a", 256, 1_000), 0.0)
    out = run(engine, [])
    assert out.finished == ["a"]
    assert sequence.output == 1_000
    assert sequence.forgotten == 8 * 128, "half of the context each time it is full"


def test_an_answer_ends_at_ten_times_num_ctx() -> None:
    engine = OllamaEngine(profile_named("rtx4090-ollama", num_ctx=64))
    sequence = engine.submit(Request("a", 10, 100_000), 0.0)
    assert sequence.cut
    assert sequence.output == 640


def test_another_model_waits_for_what_runs_and_then_for_the_loading() -> None:
    engine = OllamaEngine(FOUR, loaded="one")
    out = run(
        engine,
        [
            (0.0, Request("a", 100, 200, model="one")),
            (0.0, Request("b", 100, 10, model="two")),
            (0.0, Request("c", 100, 10, model="one")),
        ],
    )
    assert out.loads == 2
    assert out.first_at["b"] > out.finished_at["a"] + LOAD_S
    assert out.first_at["c"] > out.finished_at["b"] + LOAD_S, "nobody passes the head, even for the model in memory"
    assert engine.loaded == ("one", 8_192)


def test_another_num_ctx_is_another_loading() -> None:
    engine = OllamaEngine(FOUR, loaded="one")
    out = run(engine, [(0.0, Request("a", 4_000, 1, model="one", num_ctx=2_048))])
    assert out.loads == 1
    assert engine.capacity == 4 * 2_048


def test_an_unloaded_model_is_loaded_again() -> None:
    engine = OllamaEngine(ONE, loaded="one")
    engine.submit(Request("a", 10, 10, model="one"), 0.0)
    engine.step(1.0)
    assert not engine.unload()
    run(engine, [])
    assert engine.unload()
    assert run(engine, [(2.0, Request("b", 10, 10, model="one"))]).loads == 1


def test_a_slot_remembers_its_last_prompt() -> None:
    engine = OllamaEngine(profile_named("rtx4090-ollama", slots=2))
    first, second = tuple(range(100)), tuple(range(500, 600))
    run(engine, [(0.0, Request("a", 1_600, 5, blocks=first)), (0.0, Request("b", 1_600, 5, blocks=second))])
    again = engine.submit(Request("c", 1_616, 5, blocks=(*second, 7)), 9.0)
    other = engine.submit(Request("d", 1_600, 5, blocks=first), 9.0)
    run(engine, [])
    assert again.cached == 1_600
    assert other.cached == 1_584


def test_cancelling_frees_the_slot() -> None:
    engine = OllamaEngine(ONE)
    for name in "abc":
        engine.submit(Request(name, 1_000, 100), 0.0)
    engine.step(1.0)
    assert engine.held == 8_192
    assert engine.cancel("a")
    assert engine.cancel("b")
    assert engine.held == 0
    assert run(engine, []).finished == ["c"]

"""Whatever comes in whatever order: each request ends once, and the KV is never more than there is."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate.cost import RTX4090_OLLAMA, RTX4090_VLLM, Profile
from simulate.engine import Engine
from simulate.orders import make_engine
from simulate.sequence import Request
from tests.simulate.engines import Run, run

VLLM = replace(RTX4090_VLLM, kv_tokens=600, context_length=500, slots=5, step_budget=64)
OLLAMA = replace(RTX4090_OLLAMA, context_length=128, slots=3, step_budget=64)
PROFILES = st.sampled_from([VLLM, OLLAMA])
REQUESTS = st.lists(
    st.tuples(
        st.floats(0, 4),
        st.integers(1, 520),
        st.integers(1, 200),
        st.sampled_from(["one", "one", "one", "two"]),
        st.integers(0, 3),
        st.integers(0, 40),
    ),
    max_size=25,
)
Asked = list[tuple[float, int, int, str, int, int]]


def requests_of(asked: Asked) -> list[tuple[float, Request]]:
    """Prompts of a family share their beginning up to a point of their own."""
    arrivals = []
    for number, (at, prompt, output, model, family, shared) in enumerate(sorted(asked)):
        count = prompt // 16
        blocks = tuple(
            family * 1_000 + index if index < shared else 10_000 * (number + 1) + index for index in range(count)
        )
        arrivals.append((at, Request(number, prompt, output, model, blocks)))
    return arrivals


def ended(engine: Engine, out: Run, arrivals: list[tuple[float, Request]]) -> None:
    assert Counter([*out.finished, *out.refused]) == Counter(request.id for _, request in arrivals)
    assert (len(engine.running), engine.waiting, engine.held, engine.wake_at) == (0, 0, 0, None)
    assert out.kv_peak <= engine.capacity or engine.profile.kind == "ollama"
    for name in out.finished:
        assert out.first_at[name] <= out.finished_at[name]
    assert set(out.first_at) == set(out.finished)


@settings(max_examples=120, deadline=None)
@given(PROFILES, REQUESTS)
def test_every_request_ends_once(profile: Profile, asked: Asked) -> None:
    arrivals = requests_of(asked)
    engine = make_engine(profile, loaded="one")
    out = run(engine, arrivals)
    ended(engine, out, arrivals)


@settings(max_examples=60, deadline=None)
@given(PROFILES, REQUESTS)
def test_many_steps_at_once_are_the_same_as_one_by_one(profile: Profile, asked: Asked) -> None:
    """Ends come at the same times and in the same order, but for what a rounding error may turn."""
    arrivals = requests_of([(round(at, 2), *rest) for at, *rest in asked])  # type: ignore[misc]
    bulk, single = make_engine(profile, loaded="one"), make_engine(profile, loaded="one")
    at_once, one_by_one = run(bulk, arrivals), run(single, arrivals, single_steps=True)
    assert at_once.steps == one_by_one.steps
    assert at_once.finished == one_by_one.finished
    assert bulk.preemptions == single.preemptions
    for name, at in one_by_one.finished_at.items():
        assert math.isclose(at_once.finished_at[name], at, rel_tol=1e-9)


@settings(max_examples=60, deadline=None)
@given(PROFILES, REQUESTS)
def test_the_same_again_is_the_same(profile: Profile, asked: Asked) -> None:
    arrivals = requests_of(asked)
    assert run(make_engine(profile, loaded="one"), arrivals) == run(make_engine(profile, loaded="one"), arrivals)


@settings(max_examples=120, deadline=None)
@given(PROFILES, REQUESTS, st.data())
def test_cancelling_leaves_nothing_behind(profile: Profile, asked: Asked, data: st.DataObject) -> None:
    engine = make_engine(profile, loaded="one")
    arrivals = [(at, request) for at, request in requests_of(asked) if request.prompt_tokens < 500]
    inside, gone, done, now = set(), set(), set(), 5.0
    for at, request in arrivals:
        engine.submit(request, at)
        inside.add(request.id)
    while inside:
        if data.draw(st.integers(0, 3)) == 0:
            victim = data.draw(st.sampled_from(sorted(inside, key=str)))
            assert engine.cancel(victim)
            inside.discard(victim)
            gone.add(victim)
        step = engine.step(now, now + data.draw(st.sampled_from([0.0, 0.5])))
        if step is not None:
            now += step.duration_s
            for sequence in step.finished:
                inside.remove(sequence.request.id)
                done.add(sequence.request.id)
        if engine.profile.kind == "vllm":
            assert 0 <= engine.held <= engine.capacity
    assert not gone & done
    assert engine.step(now) is None
    assert (engine.held, len(engine.running), engine.waiting) == (0, 0, 0)


@pytest.mark.parametrize("profile", [RTX4090_VLLM, replace(RTX4090_OLLAMA, slots=4)])
def test_a_step_costs_what_changes_in_it(profile: Profile) -> None:
    """5,000 requests of 250 tokens each: some looks at the engine for each request, not one for each token."""
    arrivals = [(number * 2.4, Request(number, 60 + 40 * (number % 90), 250)) for number in range(5_000)]
    out = run(make_engine(profile), arrivals)
    assert len(out.finished) == 5_000
    assert out.calls < 8 * 5_000 < out.steps

"""Pure: when to wait for companions, what goes together, and whose tokens they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.embed import Embed, Vector, decode_embed, encode_embed, numbers, packed, pool_of
from buffer.frames import weight
from policy.collect import LULL_S, collect
from policy.window import GO, Hold
from worker.joining import MOST_AGAIN, MOST_BYTES, MOST_INPUTS, Request, plan_calls, shares

ADAPTIVE = {"policy": "adaptive", "window_s": 0.05, "most": 256, "quiet_s": 0.0, "in_flight": 0}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"waiting": 0, "oldest_wait_s": 0.0}, GO),
        # Alone before an idle engine.
        ({"waiting": 1, "oldest_wait_s": 0.0}, GO),
        # A burst is coming in.
        ({"waiting": 20, "oldest_wait_s": 0.01}, Hold(LULL_S)),
        ({"waiting": 20, "oldest_wait_s": 0.01, "quiet_s": 0.004}, Hold(pytest.approx(0.001))),
        ({"waiting": 20, "oldest_wait_s": 0.01, "quiet_s": 0.005}, GO),
        ({"waiting": 2, "oldest_wait_s": 0.01, "quiet_s": 0.005}, Hold(pytest.approx(0.015))),
        ({"waiting": 20, "oldest_wait_s": 0.049}, Hold(pytest.approx(0.001))),
        ({"waiting": 20, "oldest_wait_s": 0.05}, GO),
        ({"waiting": 256, "oldest_wait_s": 0.01}, GO),
        # The engine is at a call: the window is all there is to it.
        ({"waiting": 1, "oldest_wait_s": 0.01, "quiet_s": 0.01, "in_flight": 1}, Hold(pytest.approx(0.04))),
        ({"waiting": 1, "oldest_wait_s": 0.06, "in_flight": 1}, GO),
        ({"waiting": 1, "oldest_wait_s": 0.01, "policy": "fixed"}, Hold(pytest.approx(0.04))),
        ({"waiting": 20, "oldest_wait_s": 0.0, "window_s": 0.0, "in_flight": 1}, GO),
    ],
)
def test_collecting(facts: dict[str, float], said: object) -> None:
    assert collect(**(ADAPTIVE | facts)) == said  # type: ignore[arg-type]


def request(owner: str, *inputs: str, **more: object) -> Request[str]:
    embed = Embed("any name", list(inputs), **more)  # type: ignore[arg-type]
    return Request(owner, embed, "m")


def told(requests: list[Request[str]]) -> list[list[str]]:
    return [[f"{item.owner}{item.index}" for item in call.items] for call in plan_calls(requests)]


def test_what_asks_alike_goes_together() -> None:
    assert told([request("a", "x", "y"), request("b", "z")]) == [["a0", "a1", "b0"]]
    assert told([request("a", "x"), request("b", "y", dimensions=3), request("c", "z")]) == [["a0", "c0"], ["b0"]]
    assert told([request("a", "x", raw=True), request("b", "y", truncate=True)]) == [["a0"], ["b0"]]
    other = request("b", "y")
    other.queue = "n"
    assert told([request("a", "x"), other]) == [["a0"], ["b0"]]
    tokens = Request("b", Embed("any name", [[1, 2]]), "m")
    assert told([request("a", "x"), tokens]) == [["a0"], ["b0"]]
    renamed = request("b", "y")
    renamed.embed.model = "another spelling"
    assert told([request("a", "x"), renamed]) == [["a0", "b0"]]


def test_calls_have_bounds() -> None:
    sizes = [len(call.items) for call in plan_calls([request("a", *["x"] * 600), request("b", "y")])]
    assert sizes == [MOST_INPUTS, MOST_INPUTS, 601 - 2 * MOST_INPUTS]
    half = "x" * (MOST_BYTES // 2)
    assert told([request("a", half, half, "y"), request("b", half * 3)]) == [["a0", "a1"], ["a2"], ["b0"]]


def test_what_failed_before_goes_in_small_company_and_at_last_alone() -> None:
    again = [request(str(i), "x") for i in range(40)]
    for one in again:
        one.fails = 1
    assert [len(call.items) for call in plan_calls([*again, request("new", "x")])] == [MOST_AGAIN, MOST_AGAIN, 8, 1]
    for one in again:
        one.last = True
    assert [len(call.items) for call in plan_calls(again)] == [1] * 40
    # With one attempt only, the first is the last, and it goes with others all the same.
    only = [request("a", "x"), request("b", "x")]
    for one in only:
        one.last = True
    assert told(only) == [["a0", "b0"]]


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**5), min_size=1, max_size=50))
def test_shares_add_up_and_are_by_weight(total: int, weights: list[int]) -> None:
    parts = shares(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    for part, weight_of in zip(parts, weights, strict=True):
        assert abs(part - (total * weight_of / whole if whole else total / len(weights))) < 1 + 1e-6


def test_the_form_inside() -> None:
    embed = Embed("m", ["x", [1, 2]], truncate=False, dimensions=3, raw=True)
    assert decode_embed(encode_embed(embed)) == embed
    assert numbers(packed([0.5, -2.0])).tolist() == [0.5, -2.0]
    assert packed([1.0]) == b"\x00\x00\x80\x3f"
    assert weight(Vector(0, bytes(4096))) > 4096
    assert pool_of("default") != "default"

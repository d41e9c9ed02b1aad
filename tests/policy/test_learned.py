from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.estimate import EXPECTED_OUTPUT
from policy.learned import UNKNOWN, Figures, Learned, together


def figures(*learned: Learned) -> Figures:
    return together(one.told() for one in learned)


def test_before_anything_was_seen() -> None:
    assert figures() == figures(Learned()) == UNKNOWN
    assert UNKNOWN.expected_output("slow") == EXPECTED_OUTPUT["slow"]
    assert UNKNOWN.expected_output("slow", 7) == 7


def test_each_figure_goes_where_the_samples_are() -> None:
    learned = Learned()
    for _ in range(60):
        learned.prompt(1_625, 4_000, 5)
        learned.prefill(6_500, 1.0)
        learned.writing(55, 1.0)
        learned.answer("slow", 2_000)
    found = figures(learned)
    assert found.tokens_per_byte == pytest.approx(0.4, rel=0.05)
    assert found.prefill_rate == pytest.approx(6_500)
    assert found.token_rate == pytest.approx(55)
    assert found.expected_output("slow") == pytest.approx(2_000, rel=0.15)
    assert found.expected_output("fast") == EXPECTED_OUTPUT["fast"]


def test_one_wrong_sample_does_little() -> None:
    learned = Learned()
    for _ in range(40):
        learned.prefill(4_000, 1.0)
        learned.answer("fast", 100)
    learned.prefill(4_000, 60.0)
    learned.prefill(4_000_000, 1.0)
    learned.answer("fast", 100_000)
    found = figures(learned)
    assert found.prefill_rate == pytest.approx(4_000, rel=0.1)
    assert found.expected_output("fast") < 150


def test_what_says_nothing_is_left_out() -> None:
    learned = Learned()
    learned.prompt(30, 100, 1)
    learned.prompt(7, 100_000, 1)
    learned.prefill(60, 0.05)
    learned.prefill(0, 1.0)
    learned.prefill(4_000, 0.0)
    learned.writing(3, 1.0)
    learned.answer("nolane", 5)
    learned.answer("fast", 16, 16)
    assert learned.told() == {}
    learned.answer("fast", 4_096, 4_096)
    assert figures(learned).expected_output("fast") > EXPECTED_OUTPUT["fast"]


def test_who_has_seen_more_is_believed() -> None:
    old, fresh = Learned(), Learned()
    for _ in range(10):
        old.prefill(4_000, 1.0)
    fresh.prefill(4_000, 2.0)
    fresh.adopt(old.told())
    assert fresh.told() == old.told()
    old.adopt({"prefill_rate": (9.0, 1.0)})
    assert old.prefill_rate == 4_000
    assert figures(old, fresh).prefill_rate == pytest.approx(4_000)


@given(
    st.dictionaries(
        st.sampled_from(["prefill_rate", "tokens_per_byte", "output.fast", "output.x", "more"]),
        st.tuples(st.floats(), st.floats()),
    )
)
def test_nonsense_is_not_adopted(told: dict[str, tuple[float, float]]) -> None:
    learned = Learned()
    learned.adopt(told)
    for found in (figures(learned), together([told])):
        assert 0.1 <= found.tokens_per_byte <= 1.0
        assert 1 <= found.prefill_rate <= 1e7
        assert 1 <= found.expected_output("fast") <= 131_072
        assert found.outputs.keys() <= {"fast"}
    assert all(math.isfinite(value) and seen <= 20 for value, seen in learned.told().values())

"""Where a conversation is at home, and whose prompt is being read."""

from __future__ import annotations

from buffer.backend import Kind, ModelInfo
from buffer.load import BackendState
from gateway.beginnings import MOST_LEADERS, Beginnings, Known
from gateway.models import Model, merge
from policy.prefix import Chain, chain

SYSTEM = b"s" * 4000


def prompt(*parts: bytes) -> Chain:
    return chain(b"m", [SYSTEM, *parts])


def model(*names: str, kind: Kind = "vllm", **more: object) -> Model:
    states = [BackendState(name=name, kind=kind, up=True, models=[ModelInfo(id="m")]) for name in names]
    for name, changes in more.items():
        for state in states:
            if state.name == name:
                for field, value in dict(changes).items():  # type: ignore[call-overload]
                    setattr(state, field, value)
    found = merge([("default", state) for state in states], 1).find("m")
    assert found is not None
    return found


def test_a_conversation_is_at_home_where_its_turns_were_read() -> None:
    beginnings, two = Beginnings(), model("one", "two")
    first = prompt(b"q" * 40)
    assert beginnings.of(first, two) == Known()
    beginnings.read("a", first, "two")
    second = prompt(b"q" * 40, b"a" * 400, b"more")
    assert beginnings.of(second, two) == Known(first[-1].tokens, "two")


def test_what_all_have_read_is_at_home_with_none() -> None:
    beginnings, two = Beginnings(), model("one", "two")
    shared = prompt(b"a")
    beginnings.read("a", shared, "one")
    beginnings.read("b", shared, "two")
    assert beginnings.of(prompt(b"a", b"b"), two) == Known(shared[-1].tokens)


def test_what_is_hardly_worth_it_is_at_home_with_none() -> None:
    beginnings, two = Beginnings(), model("one", "two")
    short = chain(b"m", [b"x" * 900])
    beginnings.read("a", short, "one")
    assert beginnings.of(short, two) == Known(short[-1].tokens)


def test_the_only_back_end_needs_no_name() -> None:
    beginnings = Beginnings()
    beginnings.read("a", prompt(), "one")
    assert beginnings.of(prompt(), model("one")) == Known(prompt()[-1].tokens)


def test_what_a_back_end_has_read_that_is_away_is_new() -> None:
    beginnings = Beginnings()
    beginnings.read("a", prompt(), "one")
    for change in ({"up": False}, {"breaker_open": True}, {"fallback_for": ["two"]}):
        assert beginnings.of(prompt(), model("one", "two", one=change)) == Known()


def test_whoever_shares_what_is_being_read_comes_behind_it() -> None:
    beginnings, one = Beginnings(), model("one")
    beginnings.sent("leader", prompt(b"a"))
    assert beginnings.of(prompt(b"b"), one).behind == "leader"
    beginnings.sent("sibling", prompt(b"b"))
    assert beginnings.of(prompt(b"b", b"c"), one).behind == "leader"
    beginnings.read("leader", prompt(b"a"), "one")
    assert beginnings.of(prompt(b"d"), one) == Known(prompt()[-1].tokens)


def test_a_leader_that_went_leads_nobody() -> None:
    beginnings, one = Beginnings(), model("one")
    beginnings.sent("leader", prompt(b"a"))
    beginnings.gone("leader")
    beginnings.gone("leader")
    assert beginnings.of(prompt(b"b"), one).behind == ""
    beginnings.sent("next", prompt(b"b"))
    assert beginnings.of(prompt(b"a"), one).behind == "next"


def test_little_in_common_is_no_reason() -> None:
    beginnings, one = Beginnings(), model("one")
    beginnings.sent("leader", chain(b"m", [b"x" * 1900, b"a"]))
    assert beginnings.of(chain(b"m", [b"x" * 1900, b"b" * 9000]), one).behind == ""
    beginnings.sent("other", chain(b"m", [b"y" * 9000]))
    assert beginnings.of(chain(b"m", [b"z" * 9000]), one).behind == ""


def test_engines_that_share_nothing_between_requests_hold_nobody_up() -> None:
    beginnings = Beginnings()
    beginnings.sent("leader", prompt(b"a"))
    for kind in ("ollama", "llamacpp", "openai"):
        assert beginnings.of(prompt(b"b"), model("one", kind=kind)).behind == ""


def test_leaders_are_bounded() -> None:
    beginnings, one = Beginnings(), model("one")
    beginnings.sent("first", prompt(b"a"))
    for k in range(MOST_LEADERS):
        beginnings.sent(f"job{k}", chain(b"m", [str(k).encode() * 3000]))
    assert beginnings.of(prompt(b"b"), one).behind == ""
    assert len(beginnings._leaders) == MOST_LEADERS

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backends.trim import trim
from buffer.job import Message


def turns(*roles: str, size: int = 100) -> list[Message]:
    return [Message(role, f"{at}" * size) for at, role in enumerate(roles)]


def test_oldest_turns_go_first() -> None:
    messages = turns("system", "user", "assistant", "user", "assistant", "user")
    assert trim(messages, 0.8) == [messages[0], *messages[3:]]
    assert trim(messages, 0.01) == [messages[0], messages[5]]


def test_results_go_with_their_calls() -> None:
    messages = turns("user", "assistant", "tool", "tool", "user", size=1)
    messages[1].content = "x" * 1000
    assert trim(messages, 0.5) == [messages[4]]


def test_nothing_to_drop() -> None:
    assert trim(turns("system", "user"), 0.5) == []
    assert trim(turns("user", "assistant"), 0.5) == []
    assert trim([], 0.5) == []


@given(roles=st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=12), share=st.floats(0.01, 1))
def test_what_stays(roles: list[str], share: float) -> None:
    messages = turns(*roles, size=3)
    left = trim(messages, share)
    if left:
        assert len(left) < len(messages)
        assert [message for message in left if message.role == "system"] == [m for m in messages if m.role == "system"]
        assert left[-1] is messages[-1]
        assert left == [message for message in messages if any(message is kept for kept in left)]

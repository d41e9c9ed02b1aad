"""What the answers of both dialects have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from buffer.job import Chat, End, Event, ToolDelta


class Answer(Protocol):
    """One chat's answer being written, event by event. ``now``: seconds since 1970, never going back."""

    @property
    def finished(self) -> bool:
        """Each of the answers has said why it stopped, so that nothing of them can be missing."""
        ...

    def feed(self, events: Sequence[Event], now: float) -> bytes: ...


class AnswerStream(Answer, Protocol):
    """An answer sent while it is made. How its events are grouped changes nothing but the instants in it."""

    def heartbeat(self, now: float) -> bytes:
        """Bytes that keep a waiting connection open and that every client's parser skips."""
        ...

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> bytes:
        """The last bytes. ``queued_s``: from arrival to dispatch. A failure after the whole answer is none."""
        ...


class AnswerWhole(Answer, Protocol):
    """An answer sent in one piece; ``feed`` returns nothing."""

    def end(self, end: End, now: float, *, queued_s: float = 0.0) -> tuple[int, bytes]:
        """HTTP status and body."""
        ...


def hides(chat: Chat) -> bool:
    """Whether thinking that comes all the same is kept from the client."""
    return chat.think == "off" or not chat.show_reasoning


class Call:
    """A tool call as it comes together."""

    __slots__ = ("id", "name", "number", "pieces")

    def __init__(self, number: int, call_id: str, name: str) -> None:
        self.number = number
        """Running number that the client sees, whatever the engine counted."""
        self.id = call_id
        self.name = name
        self.pieces: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class Calls:
    """The tool calls of one answer."""

    __slots__ = ("_by_slot", "_only_one", "_seed")

    def __init__(self, chat: Chat, answer_id: str, index: int) -> None:
        self._by_slot: dict[int, Call] = {}
        self._only_one = chat.parallel_tool_calls is False
        self._seed = f"{answer_id.removeprefix('chatcmpl-')[:24]}_{index}"

    def __bool__(self) -> bool:
        return bool(self._by_slot)

    def __iter__(self) -> Iterator[Call]:
        return iter(self._by_slot.values())

    def add(self, delta: ToolDelta) -> tuple[Call, bool] | None:
        """The call that a piece belongs to, and whether it is its first. None: the client wants no second call."""
        call = self._by_slot.get(delta.slot)
        first = call is None
        if call is None:
            number = len(self._by_slot)
            if self._only_one and number:
                return None
            call = self._by_slot[delta.slot] = Call(number, delta.id or f"call_{self._seed}_{number}", delta.name)
        if delta.arguments:
            call.pieces.append(delta.arguments)
        return call, first

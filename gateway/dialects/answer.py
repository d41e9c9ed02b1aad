"""What the answers of both dialects have in common."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from buffer.job import Chat, ToolDelta


def hides(chat: Chat) -> bool:
    """Whether thinking that comes all the same is kept from the client."""
    return chat.think == "off" or not chat.show_reasoning


def shape(chat: Chat) -> Chat:
    """What of a chat its answer needs: nothing of the prompt."""
    return structs.replace(
        chat,
        messages=[],
        prompt=None if chat.prompt is None else "",
        suffix=None if chat.suffix is None else "",
        prompt_tokens=[],
        stop=[],
        tools=[],
        tool_choice=None,
        format=None,
        keep_alive=None,
        options={},
        extra={},
    )


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

"""Pure: a job that goes on from what an earlier attempt has said, and the place where the two meet."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from backends.render_text import COMPLETION_TOKENS
from buffer.heard import Said
from buffer.job import Chat, Content, Event, Message, Origin


def rest_of(chat: Chat, said: Said, spent: int) -> Chat | None:
    """``chat`` as it is asked for the rest of its answer. None: it may say no more.

    Templates cut off the blanks at the end of a message, so these are not sent; see ``Seam``. Where there is nothing
    else, it is asked from the start.
    """
    text = said.text.rstrip()
    if not text and chat.prompt is None:
        return chat
    most = chat.max_tokens
    if most is None and chat.prompt is not None and chat.front != "ollama":
        most = COMPLETION_TOKENS
    if most is not None:
        most -= spent
        if most <= 0:
            return None
    chat = msgspec.structs.replace(chat, max_tokens=most, extra=_less(chat.extra, spent))
    if chat.prompt is not None:
        return msgspec.structs.replace(chat, prompt=chat.prompt + said.text)
    # Templates set their own line breaks around it.
    thought = said.thought.strip()
    *before, last = chat.messages or [Message("user")]
    if last.role == "assistant" and not last.tool_calls:
        # The client gave the answer's beginning. Engines refuse two such messages one after the other.
        begun = Message("assistant", last.text() + text, reasoning=last.reasoning or thought)
        return msgspec.structs.replace(chat, messages=[*before, begun])
    return msgspec.structs.replace(chat, messages=[*chat.messages, Message("assistant", text, reasoning=thought)])


def _less(extra: dict[str, Raw], spent: int) -> dict[str, Raw]:
    """vLLM's least number of tokens, as far as it is still to come."""
    if "min_tokens" not in extra:
        return extra
    least = msgspec.json.decode(extra["min_tokens"])
    if not isinstance(least, int):
        return extra
    return {**extra, "min_tokens": Raw(str(max(0, least - spent)).encode())}


class Seam:
    """Takes out of a continuation what its client has: the blanks that were said and not sent, which the engine says
    again; and what it says of itself."""

    def __init__(self, chat: Chat, said: Said) -> None:
        self._tail = "" if chat.prompt is not None else said.text[len(said.text.rstrip()) :]

    def join(self, events: list[Event]) -> list[Event]:
        """Those of the events that are new; maybe none."""
        return [event for event in events if not isinstance(event, Origin) and self._is_new(event)]

    def _is_new(self, event: Event) -> bool:
        if not self._tail or not isinstance(event, Content):
            return True
        same = _common(event.text, self._tail)
        self._tail = self._tail[same:] if same == len(event.text) else ""
        event.text = event.text[same:]
        return bool(event.text)


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))

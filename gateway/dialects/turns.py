"""A conversation as agents tell it, in blocks or items, as messages that every engine's template takes."""

from __future__ import annotations

from collections.abc import Iterable

from buffer.job import Message, Part, TextPart, ToolCall
from gateway.dialects.messages import tie_results

_FROM_TOOLS = TextPart("From the tool results above:")


class Turns:
    """Messages as they come together.

    Whatever an assistant thought, said and called without being interrupted is one message. Pictures in a tool's result
    go into the user message after it, since templates take a tool's words only.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._media: list[Part] = []

    def system(self, text: str) -> None:
        """Joins the system message before it, if that is the beginning: many templates take one there and no second."""
        self._flush()
        if len(self._messages) == 1 and self._messages[0].role == "system":
            self._messages[0].content = f"{self._messages[0].text()}\n\n{text}"
        else:
            self._messages.append(Message("system", text))

    def user(self, parts: list[Part]) -> None:
        media, self._media = self._media, []
        self._messages.append(Message("user", content([*media, *parts])))

    def thought(self, text: str) -> None:
        turn = self._assistant()
        turn.reasoning = f"{turn.reasoning}\n{text}" if turn.reasoning else text

    def said(self, text: str) -> None:
        turn = self._assistant()
        turn.content = f"{turn.text()}\n{text}" if turn.content else text

    def called(self, call: ToolCall) -> None:
        self._assistant().tool_calls.append(call)

    def result(self, call_id: str, parts: Iterable[Part]) -> None:
        words = []
        for part in parts:
            if isinstance(part, TextPart):
                words.append(part.text)
            else:
                self._media.append(part)
        self._messages.append(Message("tool", "\n".join(words), tool_call_id=call_id))

    def done(self) -> list[Message]:
        """All messages, results tied to their calls; without turns in which an assistant neither spoke nor called."""
        self._flush()
        found = [m for m in self._messages if m.role != "assistant" or m.content or m.tool_calls]
        tie_results(found)
        return found

    def _assistant(self) -> Message:
        self._flush()
        if not (self._messages and self._messages[-1].role == "assistant"):
            self._messages.append(Message("assistant"))
        return self._messages[-1]

    def _flush(self) -> None:
        if self._media:
            self.user([_FROM_TOOLS])


def content(parts: list[Part]) -> str | list[Part]:
    """Parts as a message's content: one text where they are nothing but texts."""
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return parts

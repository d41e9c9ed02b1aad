"""An answer's events put together, for clients that want it in one piece."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.job import Chat, Content, Event, Finish, Logprobs, Origin, Reasoning, ToolDelta, Usage
from gateway.dialects.answer import Calls, hides
from gateway.dialects.text import one_line


class OneAnswer:
    """One of ``n`` answers, as far as it has come."""

    __slots__ = ("calls", "content", "hidden", "logprobs", "reason", "reasoning")

    def __init__(self, calls: Calls, *, hidden: bool) -> None:
        self.calls = calls
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.logprobs: list[bytes] = []
        """Lists of token entries, as JSON."""
        self.reason = ""
        self.hidden = hidden
        """The latest text was thinking that the client must not see: nor may it see its tokens."""


class Gathered:
    """All answers of a chat, with what the engine counted and says of itself."""

    def __init__(self, chat: Chat, answer_id: str) -> None:
        self._hides = hides(chat)
        self.answers = [OneAnswer(Calls(chat, answer_id, index), hidden=self._hides) for index in range(max(chat.n, 1))]
        self.usage: Usage | None = None
        self.fingerprint = ""
        self.pieces = 0
        """Pieces of text that came: about the number of tokens, where nobody counted them."""

    @property
    def finished(self) -> bool:
        return all(one.reason for one in self.answers)

    def feed(self, events: Sequence[Event]) -> None:
        first = self.answers[0]
        for event in events:
            if type(event) is Content and event.index == 0 and not first.reason:
                self.pieces += 1
                first.hidden = False
                first.content.append(event.text)
            elif isinstance(event, Usage):
                self.usage = event
            elif isinstance(event, Origin):
                self.fingerprint = event.fingerprint
            elif 0 <= event.index < len(self.answers) and not (one := self.answers[event.index]).reason:
                if isinstance(event, Content):
                    self.pieces += 1
                    one.hidden = False
                    one.content.append(event.text)
                elif isinstance(event, Reasoning):
                    self.pieces += 1
                    one.hidden = self._hides
                    if event.text and not self._hides:
                        one.reasoning.append(event.text)
                elif isinstance(event, ToolDelta):
                    one.hidden = False
                    one.calls.add(event)
                elif isinstance(event, Logprobs):
                    if not one.hidden:
                        one.logprobs.append(one_line(event.json))
                elif isinstance(event, Finish):
                    one.reason = event.reason


def joined(lists: Sequence[bytes]) -> bytes:
    """JSON lists as one list."""
    inner = (text.strip()[1:-1].strip() for text in lists)
    return b"[" + b",".join(text for text in inner if text) + b"]"

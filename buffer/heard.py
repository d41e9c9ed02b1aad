"""An answer as far as somebody has it, and whether another attempt can go on from there. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from buffer.job import Chat, Content, Event, Finish, Origin, Reasoning, ToolDelta, Usage


class Said(Struct, frozen=True, omit_defaults=True, gc=False):
    """Thinking, then words. Travels as JSON in a job's ``prefix`` and in the marks ``snap`` and ``again``; nothing said
    travels as an empty text.
    """

    text: str = ""
    thought: str = ""

    def __bool__(self) -> bool:
        return bool(self.text or self.thought)

    def events(self) -> list[Event]:
        """The same as events."""
        thought: list[Event] = [Reasoning(self.thought)] if self.thought else []
        return [*thought, Content(self.text)] if self.text else thought


_encode: Callable[[Said], bytes] = msgspec.json.Encoder().encode
_decode: Callable[[str], Said] = msgspec.json.Decoder(Said).decode


def encode_said(said: Said) -> str:
    return _encode(said).decode() if said else ""


def decode_said(data: str) -> Said:
    """Raises ``msgspec.DecodeError``."""
    return _decode(data) if data else Said()


def fingerprint(said: Said) -> str:
    """``<characters>:<crc32>`` of thinking and words; empty for nothing."""
    if not said:
        return ""
    both = "\0".join((said.thought, said.text))
    return f"{len(both) - 1}:{zlib.crc32(both.encode())}"


UNSEEN_TOKENS = 5
"""Around thinking: two tags and the line breaks beside them. Better some too many than words beyond a bound."""


class Heard:
    """Adds up the events of an answer."""

    __slots__ = ("_text", "_thought", "finished", "pieces", "plain", "thinking")

    def __init__(self, said: Said | None = None) -> None:
        said = said or Said()
        self._text = [said.text] if said.text else []
        self._thought = [said.thought] if said.thought else []
        self.thinking = bool(said.thought and not said.text.strip())
        """What came last was thinking; the blanks behind it are no word yet."""
        self.plain = True
        """Nothing came but words and thinking of one answer: ``said`` tells all of it."""
        self.finished = False
        """The engine told why it stopped."""
        self.pieces = 0
        """Tokens that were added: about one an event, and what stands around thinking."""

    def add(self, events: Iterable[Event]) -> int:
        """How many of them are words, thinking or pieces of tool calls, of whichever answer."""
        words = 0
        for event in events:
            if type(event) is Content:
                words += 1
                if event.index:
                    self.plain = False
                    continue
                self._text.append(event.text)
                self.pieces += 1
                if self.thinking and event.text and not event.text.isspace():
                    self.thinking = False
            elif type(event) is Reasoning:
                words += 1
                if event.index:
                    self.plain = False
                    continue
                self.pieces += 1 if self._thought else 1 + UNSEEN_TOKENS
                self._thought.append(event.text)
                # Thinking behind words cannot be told as thinking, then words.
                self.plain = self.plain and not any(self._text)
                self.thinking = True
            elif isinstance(event, Finish):
                self.finished = True
            elif not isinstance(event, Usage | Origin):
                words += type(event) is ToolDelta
                self.plain = False
        return words

    def words(self, texts: list[str]) -> None:
        """The same of words for the first answer, a text for each event."""
        self._text += texts
        self.pieces += len(texts)
        if self.thinking and not "".join(texts).isspace():
            self.thinking = False

    @property
    def thought(self) -> bool:
        """There was thinking."""
        return bool(self._thought)

    def said(self) -> Said:
        return Said("".join(self._text), "".join(self._thought))


_SHAPED = frozenset(
    {"structured_outputs", "response_format", "grammar", "json_schema", "echo", "use_beam_search"}
    | {f"guided_{form}" for form in ("json", "json_object", "regex", "choice", "grammar")}
)
"""Fields beyond a chat's own that constrain the whole of its answer."""


def can_go_on(chat: Chat, heard: Heard) -> bool:
    """Whether another attempt at ``chat`` can continue what was heard so that nobody sees the seam.

    Not in the middle of thinking or of a tool call, nor where the shape of the whole counts: structured output, several
    answers, log probabilities, text that is to fit before a suffix, a prompt of the engine's own tokens, one that is
    echoed, or one that leaves no place for what was thought.
    """
    if not heard.plain or heard.thinking or chat.n != 1 or chat.logprobs or chat.format is not None:
        return False
    if chat.prompt is not None and heard.thought:
        return False
    return chat.suffix is None and not chat.prompt_tokens and _SHAPED.isdisjoint(chat.extra)

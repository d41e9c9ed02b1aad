"""A question that ends in the beginning of its answer, and the answer from there on. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulate.prompt import Prompt, lengthened
from simulate.text import Text, answer, count_tokens, mark_of, thinking, tokens_until

AROUND_THINKING = count_tokens("<think>\n\n</think>\n\n")


@dataclass(frozen=True, slots=True)
class Begun:
    """As much of an answer as somebody has already. Without a text there is no beginning."""

    text: str = ""
    thought: str = ""


def split(messages: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], Begun]:
    """The messages of the question, and what the last one has begun to say."""
    last = messages[-1] if messages else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant" or last.get("tool_calls"):
        return messages, Begun()
    text = last.get("content")
    if not isinstance(text, str) or not text:
        return messages, Begun()
    thought = last.get("reasoning") or last.get("reasoning_content") or last.get("thinking")
    return messages[:-1], Begun(text, thought if isinstance(thought, str) else "")


def with_beginning(question: Prompt, begun: Begun, profile: str) -> Prompt:
    """The prompt that the engine reads: what it said itself counts for as many tokens as it took."""
    if not begun.text:
        return question
    mark = mark_of(question.text)
    tokens = _tokens(answer(mark, profile), begun.text)
    if begun.thought:
        tokens += _tokens(thinking(mark), begun.thought) + AROUND_THINKING
    return lengthened(question, begun.text, tokens)


def _tokens(text: Text, said: str) -> int:
    at = _own(text, said)
    return count_tokens(said) if at is None else count_tokens(said[:at]) + tokens_until(text, len(said) - at)


def rest(text: Text, begun: str, *, led: bool = True) -> tuple[Text, int]:
    """What of ``text`` comes behind a beginning, and how many of its tokens that has already; behind a strange one, all
    of it. ``led``: after a blank, then."""
    at = _own(text, begun)
    if at is not None:
        behind = _Rest(text, len(begun) - at)
        return behind, behind.skipped
    return (_Led(text) if led and not begun[-1].isspace() else text), 0


def _own(text: Text, begun: str) -> int | None:
    """Where in a beginning ``text`` begins, and goes on to its end: at once, or behind what another said and a
    blank. None: nowhere."""
    own = text.span(0, len(begun) + 1)
    for at in range(len(begun)):
        if begun[at] == own[:1] and (at == 0 or begun[at - 1].isspace()) and own.startswith(begun[at:]):
            return at
    return None


class _Rest:
    """A text without its first characters. A token that is cut through counts."""

    def __init__(self, text: Text, chars: int) -> None:
        self._text = text
        until = tokens_until(text, chars)
        self.skipped = until if len(text.span(0, until)) <= chars else until - 1
        self._cut = chars - len(text.span(0, self.skipped))

    def span(self, start: int, stop: int) -> str:
        said = self._text.span(self.skipped + start, self.skipped + stop)
        return said if start else said[self._cut :]


class _Led:
    """A text with a blank before it."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def span(self, start: int, stop: int) -> str:
        said = self._text.span(start, stop)
        return " " + said if said and not start else said

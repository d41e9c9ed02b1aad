"""What a simulated answer will be, settled before its first token. Pure: the same request gives the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal as OneOf

import msgspec

from simulate.going_on import rest
from simulate.text import Literal, Text, answer, draw, mark_of, thinking, tokens_until

FinishReason = OneOf["stop", "length", "tool_calls"]
CONTENT_TOKENS = (48, 240)
"""Bounds of an answer's length where nothing settles it."""
THINKING_TOKENS = (24, 96)
THINKING_SHARE = 3
"""Of an answer of a given length, one token in so many is thinking."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks of its answer, whichever API it came by."""

    prompt: str
    profile: str
    thinks: bool
    begun: str = ""
    """The beginning of the answer, which is to be gone on with."""
    max_tokens: int | None = None
    natural_tokens: int | None = None
    """A length in place of the drawn one, thinking included."""
    ignore_eos: bool = False
    """Write on until ``max_tokens``."""
    stop: tuple[str, ...] = ()
    call: tuple[str, object] | None = None
    """A tool to call, and its arguments."""
    structured: object = field(default=None)
    """A value to answer with, as JSON."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer: of its ``tokens``, ``thinking_tokens`` of thinking, then content or a tool call's arguments."""

    mark: str
    tokens: int
    thinking_tokens: int
    finish: FinishReason
    thinking: Text
    content: Text
    content_chars: int | None = None
    """A stop string ends the content after so many characters."""
    stop_reason: str | None = None
    tool: str = ""
    """The tool that the content calls; empty: the content is words."""

    def span(self, start: int, stop: int) -> tuple[str, str]:
        """Of the tokens ``start`` up to ``stop``: the thinking, and the content."""
        limit = self.thinking_tokens
        thought = self.thinking.span(start, min(stop, limit)) if start < limit else ""
        said = self.content.span(max(start - limit, 0), stop - limit) if stop > limit else ""
        if self.content_chars is not None and said:
            before = len(self.content.span(0, max(start - limit, 0)))
            said = said[: max(0, self.content_chars - before)]
        return thought, said


def plan_answer(wish: Wish, index: int = 0, *, room: int | None = None) -> Plan:
    """Plan answer number ``index`` to a prompt. ``room``: tokens that the context leaves for it, if it is a bound."""
    mark = mark_of(wish.prompt, index)
    thought = draw(mark + "t", *THINKING_TOKENS) if wish.thinks else 0
    content: Text = answer(mark, wish.profile)
    fixed = wish.call is not None or wish.structured is not None
    if fixed:
        value = wish.call[1] if wish.call is not None else wish.structured
        literal = Literal(msgspec.json.encode(value).decode())
        content, natural = literal, thought + literal.tokens
    elif wish.natural_tokens is not None:
        natural = max(1, wish.natural_tokens)
        thought = natural // THINKING_SHARE if wish.thinks else 0
    else:
        natural = thought + draw(mark + "c", *CONTENT_TOKENS)
    if wish.begun:
        content, said = rest(content, wish.begun, led=not fixed)
        natural, thought = natural - thought - said, 0
    limits = [limit for limit in (wish.max_tokens, room) if limit is not None]
    if wish.ignore_eos and limits and not fixed:
        natural = max(natural, min(limits))
    over = natural < 1
    natural = max(1, natural)
    tokens = min([natural, *limits])
    finish: FinishReason = "length" if tokens < natural or (wish.ignore_eos and limits and not fixed) else "stop"
    if finish == "stop" and wish.call is not None:
        finish = "tool_calls"
    tool = wish.call[0] if wish.call is not None else ""
    thought = min(thought, tokens)
    chars, found = (None, None) if tool else _first_stop(content.span(0, tokens - thought), wish.stop)
    if over:
        # All of it has been said; it takes the engine a token to say so.
        chars, found = 0, None
    if chars is not None:
        tokens, finish = thought + tokens_until(content, chars + len(found or ""), tokens - thought), "stop"
    return Plan(mark, tokens, thought, finish, thinking(mark), content, chars, found, tool)


def _first_stop(text: str, stops: Sequence[str]) -> tuple[int | None, str | None]:
    """Where the first stop string of a text begins, and which it is; the one that is complete first wins."""
    found = [(at + len(stop), at, stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
    if not found:
        return None, None
    _, at, stop = min(found)
    return at, stop

"""Words for an answer that nobody thought of. Pure: the same prompt gives the same words, a token at a time.

A token is a piece of about four characters; the pieces of a text joined are the text.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Protocol

CHARS_PER_TOKEN = 4
MARK_DIGITS = 10
_PIECE = re.compile(r"\s*\w{1,5}[^\w\s]?|\s*[^\w\s]+|\s+")


def count_tokens(text: str) -> int:
    """Tokens of a text: its characters by four, rounded up."""
    return -(-len(text) // CHARS_PER_TOKEN)


def mark_of(text: str, index: int = 0) -> str:
    """Ten hexadecimal digits that tell one prompt's answer number ``index`` from all others'."""
    return blake2b(f"{index}:{text}".encode("utf-8", "surrogatepass"), digest_size=MARK_DIGITS // 2).hexdigest()


def draw(mark: str, least: int, most: int) -> int:
    """A number between two bounds, both included, that the mark settles."""
    return least + int.from_bytes(blake2b(mark.encode(), digest_size=4).digest()) % (most - least + 1)


class Text(Protocol):
    """A text by its tokens."""

    def span(self, start: int, stop: int) -> str:
        """The text of tokens ``start`` up to ``stop``."""
        ...


def tokens_until(text: Text, chars: int, most: int | None = None) -> int:
    """Tokens of a text up to the one that has its character number ``chars``; at least one."""
    low, high = 1, max(1, chars) if most is None else most
    while low < high:
        middle = (low + high) // 2
        if len(text.span(0, middle)) >= chars:
            high = middle
        else:
            low = middle + 1
    return low


class Literal:
    """A text that is given, four characters a token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = count_tokens(text)

    def span(self, start: int, stop: int) -> str:
        return self.text[start * CHARS_PER_TOKEN : stop * CHARS_PER_TOKEN]


class Sentences:
    """An opening, then the same sentence over and over with its number in it: as long as one wants."""

    def __init__(self, opening: str, before: str, after: str) -> None:
        self._opening: list[str] = _PIECE.findall(opening)
        self._before: list[str] = _PIECE.findall(before)
        self._after: list[str] = _PIECE.findall(after)
        self._period = len(self._before) + 1 + len(self._after)

    def _piece(self, token: int) -> str:
        if token < len(self._opening):
            return self._opening[token]
        number, place = divmod(token - len(self._opening), self._period)
        if place < len(self._before):
            return self._before[place]
        if place == len(self._before):
            return f" {number + 1}"
        return self._after[place - len(self._before) - 1]

    def span(self, start: int, stop: int) -> str:
        if stop == start + 1:
            return self._piece(start)
        return "".join(map(self._piece, range(start, stop)))


def answer(mark: str, profile: str) -> Text:
    """The words of an answer. They say that they are simulated, and carry the mark."""
    return Sentences(
        f"This answer is simulated [{mark}]: no model has read the question; {profile} is a set of numbers, no card.",
        " Line",
        " of it says nothing, one word after the other.",
    )


def thinking(mark: str) -> Text:
    """The words of a model that thinks first, just as simulated."""
    return Sentences(
        f"Simulated thinking [{mark}]: nobody thinks here.", " Step", " leads on to the next, and to no end."
    )

"""The right answer to each chat, known from its prompt alone; and what is wrong with an answer that differs. Pure.

An answer is numbered words, ``c7r3·1 c7r3·2 …``: each tells whose it is and which place it has. An engine cuts it into
tokens that are no words, always at the same places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

_ASKED = re.compile(r"marker:(\w+) words:(\d+) thoughts:(\d+)")
UNSEEN = 5
"""Tokens that stand around thinking: tags and line breaks, which no client sees."""
_WORD = re.compile(r"(\w+)·(\d+)")


@dataclass(frozen=True, slots=True)
class Task:
    """What a prompt asks an engine of these tests for. ``marker``: no other chat of the run has it."""

    marker: str
    words: int
    thoughts: int = 0

    def prompt(self, *, padding: int = 0) -> str:
        """``padding``: characters of no meaning ahead of it."""
        return f"{'lorem ipsum ' * (padding // 12)}marker:{self.marker} words:{self.words} thoughts:{self.thoughts}"

    def text(self) -> str:
        return " ".join(f"{self.marker}·{i}" for i in range(1, self.words + 1))

    def tokens(self) -> list[str]:
        text, draw, cut = self.text(), Random(self.marker), 0
        tokens = []
        while cut < len(text):
            size = draw.randint(3, 12)
            tokens.append(text[cut : cut + size])
            cut += size
        return tokens

    def thinking(self) -> list[str]:
        return [f"thought {i} of {self.marker}. " for i in range(1, self.thoughts + 1)]

    def room(self, most: int) -> int:
        """Tokens that are left for words where an answer may have ``most``."""
        return max(0, most - (self.thoughts + UNSEEN if self.thoughts else 0))

    def rest(self, said: str) -> list[str] | None:
        """The tokens behind ``said``; None: these are not the first words of the answer."""
        tokens = self.tokens()
        for i, token in enumerate(tokens):
            if not said:
                return tokens[i:]
            if not said.startswith(token):
                return [token[len(said) :], *tokens[i + 1 :]] if token.startswith(said) else None
            said = said[len(token) :]
        return None if said else []


def asked(prompt: str) -> Task:
    """Raises ``LookupError`` where nothing of the kind is asked."""
    found = _ASKED.findall(prompt)
    if not found:
        raise LookupError("No task in the prompt.")
    marker, words, thoughts = found[-1]
    return Task(marker, int(words), int(thoughts))


@dataclass(slots=True)
class Flaws:
    """Words of one answer that are not as they should be."""

    lost: int = 0
    repeated: int = 0
    reordered: int = 0
    wrong: int = 0
    """Another chat's words, or no words at all."""

    def __bool__(self) -> bool:
        return bool(self.lost or self.repeated or self.reordered or self.wrong)


def flaws(task: Task, got: str, *, whole: bool) -> Flaws:
    """``whole``: the answer said that it is complete. Else only what lies between its words can be lost."""
    text, found = task.text(), Flaws()
    if text.startswith(got):
        if whole:
            half_a_word = got[-1:] not in ("", " ") and text[len(got) : len(got) + 1] not in ("", " ")
            found.lost = task.words - len(got.split()) + half_a_word
        return found
    read = _WORD.findall(got)
    if not whole and read:
        read.pop()  # the last word may be half a word
    numbers = [int(number) for marker, number in read if marker == task.marker]
    found.wrong = len(read) - len(numbers) + sum(number > task.words for number in numbers)
    seen: set[int] = set()
    highest = 0
    for number in numbers:
        if number in seen:
            found.repeated += 1
        elif number < highest:
            found.reordered += 1
        seen.add(number)
        highest = max(highest, number)
    last = task.words if whole else highest
    found.lost = sum(number not in seen for number in range(1, last + 1))
    if not found:
        found.wrong = 1  # words in their places, but letters that are not
    return found

"""Prompts made of words, as long as a workload says and no two alike, so that an engine's prefix cache gives nothing
away that the workload has not in it. Pure.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from simulate.prompt import render
from simulate.text import CHARS_PER_TOKEN
from simulate.workload import Arrival

QUESTION_CHARS = 60
"""Of the newest message where the prompt is longer: a question about what stands before it, and short enough for the
lane of short chats."""
ALONE_CHARS = 96
"""Up to so many, the prompt is the question alone."""
_POOL_CHARS = 1 << 20
_WORDS = (
    "a about above after again air all along also always an and animal another answer any are around as ask at away "
    "back be because been before began below between big book both but by call came can car change city close come "
    "could country cut day did different do does door down each early earth eat end even every example eye face family "
    "far father feet few find first follow food for form found four from garden gave get girl give go good got great "
    "group grow had hand hard has have he head hear help her here high him his home house how idea if important in "
    "into is it its just keep kind knew know land large last late learn leave left letter life light like line list "
    "little live long look made make man many may me mean men might mile more morning most mother mountain move much "
    "must my name near need never new next night no not now number of off often old on once one only open or other "
    "our out over own page paper part people place plant play point put question quick quiet rain read right river "
    "room run said same saw say school sea second see seem sentence set she should show side small so some something "
    "soon sound spell stand start state still stop story street study such sun take talk tell than that the their "
    "them then there these they thing think this those thought three through time to together told too took tree try "
    "turn two under until up us use very walk want was watch water way we well went were what when where which while "
    "white who why will wind with without wood word work world would write year you young your"
)


@dataclass(frozen=True, slots=True)
class Tongue:
    """How an engine counts: ``tokens = (characters + frame) / chars_per_token``."""

    chars_per_token: float
    alone_frame: float
    """What the template adds to a question alone, in characters;"""
    framed_frame: float
    """and to a text with a question behind it."""


def _frame(*roles: str) -> int:
    return len(render([{"role": role, "content": ""} for role in roles]).text)


SIMULATED = Tongue(CHARS_PER_TOKEN, _frame("user"), _frame("system", "user"))
"""The simulated engine's, exactly."""


class Prompts:
    """The messages of a workload's requests. ``salt``: another one gives other texts of the same lengths."""

    def __init__(self, tongue: Tongue, *, seed: int) -> None:
        self._tongue = tongue
        self._seed = seed
        source = random.Random(f"words {seed}")
        words = " ".join(source.choices(_WORDS.split(), k=_POOL_CHARS // 4))
        self._pool = words[:_POOL_CHARS]

    def messages(self, arrival: Arrival, number: int, *, salt: str) -> list[dict[str, str]]:
        """Of request ``number`` of a run. Requests of one salt share their beginnings as their arrivals tell."""
        tongue = self._tongue
        wanted = round(arrival.prompt_tokens * tongue.chars_per_token)
        alone = max(1, round(wanted - tongue.alone_frame))
        if alone <= ALONE_CHARS and not arrival.shared_tokens:
            return [{"role": "user", "content": self._text(alone, f"{salt} {number}")}]
        chars = max(2, round(wanted - tongue.framed_frame))
        asked = min(QUESTION_CHARS, chars // 2)
        shared = min(round(arrival.shared_tokens * tongue.chars_per_token), chars - asked)
        text = self._common(shared, salt) + self._text(chars - asked - shared, f"{salt} {number}")
        return [
            {"role": "system", "content": text},
            {"role": "user", "content": self._text(asked, f"{salt} {number} asks")},
        ]

    def plain(self, chars: int, *, salt: str) -> list[dict[str, str]]:
        """A question alone of so many characters."""
        return [{"role": "user", "content": self._text(chars, salt)}]

    def _common(self, chars: int, salt: str) -> str:
        return self._text(chars, f"{salt} common") if chars else ""

    def _text(self, chars: int, name: str) -> str:
        """Begins with digits that no other text begins with, and goes on somewhere in the words."""
        digest = blake2b(f"{self._seed} {name}".encode(), digest_size=8)
        head = f"{digest.hexdigest()} "[:chars]
        start = int.from_bytes(digest.digest()[:4]) % (_POOL_CHARS // 2)
        parts = [head]
        left = chars - len(head)
        while left > 0:
            part = self._pool[start : start + left]
            parts.append(part)
            left -= len(part)
            start = 0
        return "".join(parts)


def body_of(messages: list[dict[str, str]], *, model: str, tokens: int) -> bytes:
    """A streamed chat whose answer is ``tokens`` long, where the engine can be told to write on."""
    fields: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    return msgspec.json.encode(fields)

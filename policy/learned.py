"""What the use of a model at a back end shows: tokens of its text, rates, lengths of answers. Pure.

A figure moves a little with each sample, the less the more it has seen, and by no sample far: one that is wrong, and
one that a client made up, counts for one. What cannot be is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from policy.estimate import BYTES_PER_TOKEN, EXPECTED_OUTPUT, MESSAGE_TOKENS, PREFILL_RATE, expected_output

TOKEN_RATE: Final = 40.0
"""Tokens a second of one answer, of an engine that nobody has measured yet."""
MOST_SEEN: Final = 20.0
"""Samples after which a figure is as firm as it gets: then the newest has a weight of 1 in 21."""
LEAST_BYTES: Final = 400
"""What a template puts around a shorter prompt says more than its text does."""
LEAST_TOKENS_PER_BYTE: Final = 0.1
LEAST_PROMPT: Final = int(LEAST_BYTES * LEAST_TOKENS_PER_BYTE)
"""A prompt of fewer tokens shows nothing of its text, however much that is."""
LEAST_PREFILL: Final = 256
"""The reading of fewer tokens drowns in what a request takes anyway."""
LEAST_ANSWER: Final = 16
FIRM: Final = 3.0
"""Samples from which on somebody may be refused by a figure."""

Told = Mapping[str, tuple[float, float]]
"""Name of a figure → its value and the samples behind it."""

_BYTES: Final = "tokens_per_byte"
_PREFILL: Final = "prefill_rate"
_TOKENS: Final = "token_rate"
_OUTPUT: Final = "output."


class _Kind(NamedTuple):
    least: float
    most: float
    start: float = 0.0
    """Before anything was seen; 0: the first sample."""
    prior: float = 0.0
    """Samples that this is worth."""
    sums: bool = False
    """Its values are added up by those who use it, so it has to be a mean. Else it is a rate, of which twice as much is
    as far off as half as much."""


_KINDS: Final[Mapping[str, _Kind]] = {
    _BYTES: _Kind(LEAST_TOKENS_PER_BYTE, 1.0, 1 / BYTES_PER_TOKEN, 1.0),
    _PREFILL: _Kind(1.0, 1e7),
    _TOKENS: _Kind(0.05, 1e5),
    **{_OUTPUT + lane: _Kind(1.0, 131_072.0, float(tokens), 4.0, True) for lane, tokens in EXPECTED_OUTPUT.items()},
}


@dataclass(slots=True)
class _Figure:
    kind: _Kind
    value: float
    seen: float

    def add(self, sample: float, weight: float) -> None:
        step = weight / (self.seen + weight)
        self.seen = min(MOST_SEEN, self.seen + weight)
        if not self.value:
            self.value = sample
        elif self.kind.sums:
            self.value += step * (min(sample, 8 * self.value) - self.value)
        else:
            self.value *= min(2.0, max(0.5, sample / self.value)) ** step


@dataclass(slots=True)
class Learned:
    """Of one model at one back end."""

    _figures: dict[str, _Figure] = field(default_factory=dict)

    def prompt(self, tokens: int, size: int, messages: int) -> None:
        """A prompt of ``size`` bytes of text in ``messages`` pieces had so many tokens. Pictures and sound are to be
        kept away from here."""
        if size >= LEAST_BYTES:
            self._add(_BYTES, (tokens - messages * MESSAGE_TOKENS) / size, min(1.0, size / (2 * LEAST_BYTES)))

    def prefill(self, tokens: int, seconds: float, *, alone: bool = True) -> None:
        """``tokens`` were read in so long, with nothing else to be read. Not ``alone``: others' may have been among
        them."""
        if tokens >= LEAST_PREFILL and seconds > 0:
            weight = min(1.0, tokens / (8 * LEAST_PREFILL))
            self._add(_PREFILL, tokens / seconds, weight if alone else weight / 4)

    def writing(self, tokens: int, seconds: float) -> None:
        """One answer's ``tokens`` came in so long."""
        if tokens >= LEAST_ANSWER and seconds > 0:
            self._add(_TOKENS, tokens / seconds, 1.0)

    def answer(self, lane: str, tokens: int, max_tokens: int | None = None) -> None:
        """An answer in ``lane`` had so many; its client allowed ``max_tokens``."""
        name = _OUTPUT + lane
        if max_tokens and tokens >= max_tokens:
            # Nobody knows how long it would have been. At least it says so much.
            figure = self._figures.get(name)
            if tokens <= (figure.value if figure else EXPECTED_OUTPUT.get(lane, math.inf)):
                return
        self._add(name, float(tokens), 1.0)

    def told(self) -> dict[str, tuple[float, float]]:
        """What others may go by."""
        return {name: (round(one.value, 6), round(one.seen, 3)) for name, one in self._figures.items()}

    def adopt(self, told: Told) -> None:
        """Takes what another has seen more of. What it has and nobody could have is left."""
        for name, (value, seen) in told.items():
            kind, mine = _KINDS.get(name), self._figures.get(name)
            if kind is not None and kind.least <= value <= kind.most and seen > (mine.seen if mine else 0.0):
                self._figures[name] = _Figure(kind, value, min(MOST_SEEN, seen))

    @property
    def prefill_rate(self) -> float | None:
        """Tokens a second; None: nothing was seen."""
        figure = self._figures.get(_PREFILL)
        return figure.value if figure else None

    def _add(self, name: str, sample: float, weight: float) -> None:
        kind = _KINDS.get(name)
        if kind is None or not kind.least <= sample <= kind.most:
            return
        figure = self._figures.get(name)
        if figure is None:
            figure = self._figures[name] = _Figure(kind, kind.start, kind.prior)
        figure.add(sample, weight)


@dataclass(frozen=True, slots=True)
class Figures:
    """What is reckoned with for a model, over all its back ends."""

    tokens_per_byte: float = 1 / BYTES_PER_TOKEN
    prefill_rate: float = PREFILL_RATE
    """Prompt tokens a second."""
    token_rate: float = TOKEN_RATE
    """Tokens a second of one answer."""
    outputs: Mapping[str, float] = field(default_factory=dict)
    """Lane → tokens of an answer."""
    firm: frozenset[str] = frozenset()
    """Figures that more than a sample or two have shown."""

    def expected_output(self, lane: str, max_tokens: int | None = None) -> int:
        """Tokens that an answer in ``lane`` will probably have, never above what the client allows."""
        return expected_output(lane, max_tokens, learned=self.outputs.get(lane))

    def answer_s(self, lane: str, max_tokens: int | None = None) -> float | None:
        """Seconds that an answer in ``lane`` is written; None: too little has been seen to tell. Where nobody knows how
        long they are, one that its client keeps shorter than they are thought to be."""
        if _TOKENS not in self.firm:
            return None
        tokens = self.expected_output(lane, max_tokens)
        if _OUTPUT + lane not in self.firm and tokens != max_tokens:
            return None
        return tokens / self.token_rate


UNKNOWN: Final = Figures()


def together(told: Iterable[Told]) -> Figures:
    """Of back ends that a job may go to, whichever has a place: what those that have seen more say counts for more."""
    sums: dict[str, tuple[float, float]] = {}
    for one in told:
        for name, (value, seen) in one.items():
            kind = _KINDS.get(name)
            if kind is not None and kind.least <= value <= kind.most and 0 < seen < math.inf:
                total, weight = sums.get(name, (0.0, 0.0))
                sums[name] = (total + value * seen, weight + seen)
    if not sums:
        return UNKNOWN
    found = {name: total / weight for name, (total, weight) in sums.items()}
    return Figures(
        tokens_per_byte=found.get(_BYTES, UNKNOWN.tokens_per_byte),
        prefill_rate=found.get(_PREFILL, UNKNOWN.prefill_rate),
        token_rate=found.get(_TOKENS, UNKNOWN.token_rate),
        outputs={name.removeprefix(_OUTPUT): value for name, value in found.items() if name.startswith(_OUTPUT)},
        firm=frozenset(name for name, (_, weight) in sums.items() if weight >= _KINDS[name].prior + FIRM),
    )

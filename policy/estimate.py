"""Tokens, prefill time, rates, predicted wait. Pure: instants come in by argument, in seconds of any one clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

BYTES_PER_TOKEN: Final = 4
"""Of UTF-8 text. Bytes fit more languages than characters: Chinese takes about 0.7 tokens a character, which is three
bytes."""
IMAGE_TOKENS: Final = 1000
MESSAGE_TOKENS: Final = 5
"""What a chat template adds around a message."""
PREFILL_RATE: Final = 4000.0
"""Prompt tokens a second of an engine that nobody has measured yet."""

EXPECTED_OUTPUT: Final[Mapping[str, int]] = {
    "thinking": 1024,
    "fast": 128,
    "normal": 256,
    "slow": 512,
    "background": 256,
}


def estimate_tokens(size: int, *, images: int = 0, messages: int = 0) -> int:
    """Prompt tokens of ``size`` bytes of UTF-8 text (or characters of plain English), at least 1."""
    return max(1, math.ceil(size / BYTES_PER_TOKEN) + images * IMAGE_TOKENS + messages * MESSAGE_TOKENS)


def prefill_s(tokens: int, rate: float = PREFILL_RATE) -> float:
    """Seconds to read ``tokens`` at ``rate`` tokens a second."""
    return max(0, tokens) / rate if rate > 0 else 0.0


def expected_output(lane: str, max_tokens: int | None = None, *, learned: float | None = None) -> int:
    """Tokens that an answer in ``lane`` will probably have, never above what the client allows and at least 1."""
    guess = EXPECTED_OUTPUT.get(lane, 256) if learned is None else math.ceil(learned)
    if max_tokens is not None and max_tokens > 0:
        guess = min(guess, max_tokens)
    return max(1, guess)


@dataclass(slots=True)
class Average:
    """An exponentially weighted mean; ``value`` is None until something was seen."""

    weight: float = 0.1
    """Of the newest sample, 0 to 1."""
    value: float | None = None

    def add(self, sample: float) -> None:
        self.value = sample if self.value is None else self.value + self.weight * (sample - self.value)


@dataclass(slots=True)
class Rate:
    """Events a second, the older ones fading by half each ``half_life_s``; right from the first second on."""

    half_life_s: float = 30.0
    _since_at: float | None = None
    _seen_at: float = 0.0
    _faded: float = 0.0

    def add(self, now_at: float, amount: float = 1.0) -> None:
        if self._since_at is None:
            self._since_at = self._seen_at = now_at
        self._faded = self._fade(now_at) + amount
        self._seen_at = max(now_at, self._seen_at)

    def per_s(self, now_at: float) -> float:
        """0 until something was added."""
        if self._since_at is None:
            return 0.0
        seen_s = max(1.0, now_at - self._since_at)
        mass_s = self.half_life_s / math.log(2) * -math.expm1(-math.log(2) * seen_s / self.half_life_s)
        return self._fade(now_at) / mass_s

    def _fade(self, now_at: float) -> float:
        return self._faded * math.exp(-math.log(2) * max(0.0, now_at - self._seen_at) / self.half_life_s)


@dataclass(slots=True)
class OutputLengths:
    """What answers were long, by lane; the estimate before anything was seen is ``EXPECTED_OUTPUT``."""

    _by_lane: dict[str, Average] = field(default_factory=dict)

    def add(self, lane: str, tokens: int) -> None:
        if lane in EXPECTED_OUTPUT:
            average = self._by_lane.get(lane)
            if average is None:
                average = self._by_lane[lane] = Average(weight=0.05, value=float(EXPECTED_OUTPUT[lane]))
            average.add(float(tokens))

    def expected(self, lane: str, max_tokens: int | None = None) -> int:
        average = self._by_lane.get(lane)
        return expected_output(lane, max_tokens, learned=average.value if average else None)


def predicted_wait_s(ahead: float, drain_rate: float, *, passing_rate: float = 0.0, room: bool = False) -> float:
    """Seconds until a job starts that has ``ahead`` (jobs, or their cost) before it, at ``drain_rate`` of the same a
    second.

    ``passing_rate``: what arrives a second and will go before it; it uses up part of the rate, but never all of it,
    since the preference of other lanes is bounded. ``room``: an engine has room and nothing waits. An unknown rate
    predicts no wait: a service that has not answered anything yet must not refuse.
    """
    if room or ahead <= 0 or drain_rate <= 0:
        return 0.0
    return ahead / max(drain_rate - passing_rate, drain_rate / 4)


def retry_after_s(waiting: float, drain_rate: float) -> int:
    """Whole seconds after which a refused client may find room, 1 to 120; 5 where the rate is unknown."""
    if drain_rate <= 0:
        return 5
    return max(1, math.ceil(min(120.0, waiting / drain_rate)))

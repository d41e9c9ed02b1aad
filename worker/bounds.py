"""What a back end may carry over all workers, from what a look found and what has been seen of its speed."""

from __future__ import annotations

from backends.base import Backend, Probe
from buffer.backend import Kind
from buffer.records import Limits
from policy.credit import SEGMENT_TOKENS, limits
from policy.estimate import PREFILL_RATE
from policy.segment import pause_s

LARGE_SEGMENT_TOKENS = 1024
FAST_TOKENS_PER_S = 15_000
"""An engine that reads faster than this takes the larger pieces, of which it has read one just as soon."""
SMALL_SEGMENT_TOKENS = 256
SLOW_TOKENS_PER_S = 1_000
"""One that reads more slowly than this, as on a CPU, takes the smaller ones: whoever comes waits for one of them."""


class Bounds:
    """Of one back end. They are asked for before each pull, and worked out where they follow from something new."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._probe: Probe | None = None
        self._basis: tuple[int, float | None, bool] | None = None
        self._bounds = Limits(slots=0)

    def of(self, found: Probe | None, *, jobs: int, rate: float | None) -> Limits:
        """As ``bounds_of``. None: it is down, or was not looked at yet."""
        basis = (jobs, rate, self._backend.splits)
        if basis != self._basis or found is not self._probe:
            self._probe, self._basis = found, basis
            self._bounds = bounds_of(self._backend, found or Probe(), jobs=jobs, rate=rate)
        return self._bounds


def bounds_of(backend: Backend, found: Probe, *, jobs: int, rate: float | None) -> Limits:
    """``jobs``: at a time, at most. ``rate``: prompt tokens that it reads in a second; None: nobody knows."""
    ollama = backend.spec.kind == "ollama"
    segment = _segment(backend.spec.kind, rate) if backend.splits else 0
    credit = limits(
        jobs,
        kv_tokens=backend.spec.kv_tokens or found.kv_tokens,
        ollama=ollama,
        # It reads the prompts of all its places by turns.
        segment_tokens=None if ollama else segment or SEGMENT_TOKENS,
    )
    return Limits(
        slots=credit.slots,
        kv=credit.kv,
        prefill=credit.prefill,
        long=credit.long,
        reserved_slots=credit.reserved_slots,
        kv_reserve=credit.kv_reserve,
        segment=segment,
        pause_us=round(pause_s(segment, rate or PREFILL_RATE) * 1e6),
    )


def _segment(kind: Kind, rate: float | None) -> int:
    if rate is None:
        # Two or three pieces tell. llama.cpp may be on a CPU, where the first one would take seconds.
        return SMALL_SEGMENT_TOKENS if kind == "llamacpp" else SEGMENT_TOKENS
    if rate > FAST_TOKENS_PER_S:
        return LARGE_SEGMENT_TOKENS
    return SEGMENT_TOKENS if rate >= SLOW_TOKENS_PER_S else SMALL_SEGMENT_TOKENS

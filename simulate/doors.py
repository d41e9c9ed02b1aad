"""The ways to an engine that the study compares with the product's: everything at once, and a fixed window."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from policy.window import Go, decide
from simulate.sequence import Request, Running
from simulate.virtual import Ask, Sending

WINDOW_S = 0.05
BATCH = 8


def request_of(ask: Ask, block: int, *, upto: int | None = None, part: int = 0) -> Request:
    """What the engine gets of an ask: all of it, or a beginning of its prompt, for which it writes one token.

    ``block``: tokens of a block of the prefix cache. Shared beginnings are taken to be the same for all requests that
    have one.
    """
    arrival = ask.arrival
    tokens = arrival.prompt_tokens if upto is None else upto
    count, shared, own = tokens // block, arrival.shared_tokens // block, (ask.number + 1) << 20
    blocks: Sequence[int] = range(own, own + count)
    if shared:
        blocks = (*range(min(shared, count)), *range(own + shared, own + count))
    return Request((ask.number, part), tokens, arrival.output_tokens if upto is None else 1, blocks=blocks)


class Direct:
    """Everything goes to the engine at once. ``block_tokens``: of its prefix cache."""

    path_s = 0.0

    def __init__(self, block_tokens: int) -> None:
        self._block = block_tokens
        self._waiting: deque[Ask] = deque()

    def come(self, ask: Ask, now: float) -> None:
        self._waiting.append(ask)

    def go(self, now: float) -> list[Sending]:
        return self._take(len(self._waiting))

    def wake_at(self) -> float | None:
        return None

    def begun(self, sending: Sending, now: float) -> None: ...

    def done(self, sending: Sending, running: Running, now: float) -> None: ...

    def refused(self, sending: Sending) -> None: ...

    def _take(self, count: int) -> list[Sending]:
        return [Sending(ask, request_of(ask, self._block)) for ask in (self._waiting.popleft() for _ in range(count))]


class FixedWindow(Direct):
    """A window of 50 ms or eight requests, whichever is full first; then all of them go."""

    def go(self, now: float) -> list[Sending]:
        if not self._waiting:
            return []
        # The instant that it asked to be woken at is the window's end, whatever is lost in the subtraction.
        oldest_wait_s = WINDOW_S if now >= self._waiting[0].at + WINDOW_S else now - self._waiting[0].at
        waiting = len(self._waiting)
        held = decide("fixed", window_s=WINDOW_S, batch_size=BATCH, waiting=waiting, oldest_wait_s=oldest_wait_s)
        return self._take(min(BATCH, waiting)) if isinstance(held, Go) else []

    def wake_at(self) -> float | None:
        return self._waiting[0].at + WINDOW_S if self._waiting else None

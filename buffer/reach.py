"""Whether a server of the store is there, as its commands find out, and one look after another while it is not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType

from buffer.trouble import CROWDED, SILENT, StoreUnavailable, Trouble, unavailable

log = logging.getLogger("doublebuffer.buffer")

STEPS = 5
LOOK_S = 1.0
"""How long a look may take."""
LOOK_EVERY_S = (0.05, 0.5)
"""From one look to the next: the first pause, doubled up to the second."""
PATIENCE_S = 2.0
"""How long a patient caller waits for the server before it is told."""
TELL_EVERY_S = 30.0
"""How often the log tells of the same refusal."""
GRACE_S = 1.0
"""How long a command from before an outage may still take when it is over: its connection may lead nowhere."""


class Reach:
    """Of one server. ``look`` asks it for a sign of life, and raises ``StoreUnavailable``; ``name``: for the log;
    ``end_in``: has what is under way waited for so many seconds at most.

    While it is away, callers that cannot wait are refused at once. Those that can look for it, one at a time.
    """

    def __init__(self, look: Callable[[], Awaitable[None]], name: str, end_in: Callable[[float], None]) -> None:
        self._look = look
        self._end_in = end_in
        self._name = name
        self._away: Trouble | None = None
        self._away_at = 0.0
        self._heard_at = float("-inf")
        self._known = False
        self._look_at = 0.0
        self._pause_s = 0.0
        self._turn = asyncio.Lock()
        self._limits: set[Limit] = set()
        self._told_at: dict[str, float] = {}

    @property
    def away(self) -> Trouble | None:
        """Why it is away. None: it is there, as far as is known, or nobody has looked for a while."""
        overdue = self._look_at + LOOK_S < _now() and not self._turn.locked()
        return None if overdue else self._away

    @property
    def away_now(self) -> bool:
        """Whether it was away the last that was heard."""
        return self._away is not None

    async def there(self, *, patient: bool) -> None:
        """Returns at once if it is there; else looks for it, ``PATIENCE_S`` at most if patient. Raises
        ``StoreUnavailable``.
        """
        if self._away is None:
            return
        if not patient:
            if self.away is None:
                await self._look_now()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    while self._away is not None:
                        await self._look_now()
        if self._away is not None:
            raise unavailable(self._away)

    async def _look_now(self) -> None:
        """Looks, when it is time for it and nobody else does."""
        async with self._turn:
            if self._away is None:
                return
            await asyncio.sleep(self._look_at - _now())
            self._pause_s = min(LOOK_EVERY_S[1], max(LOOK_EVERY_S[0], self._pause_s * 2))
            try:
                async with self.limit(LOOK_S):
                    await self._look()
            except StoreUnavailable as error:
                self._away = Trouble(str(error), error.soon)
            except TimeoutError:
                self._away = SILENT
            else:
                self.heard()
            finally:
                self._look_at = _now() + self._pause_s

    def heard(self) -> None:
        """It answered something."""
        known, self._heard_at = self._known, asyncio.get_running_loop().time()
        self._known = True
        if self._away is None:
            return
        if known:
            log.warning("the store at %s is back after %.1f s", self._name, self._heard_at - self._away_at)
        self._away = None
        self.hurry()

    def hurry(self) -> None:
        """What is under way may wait ``GRACE_S`` more: its connections may lead nowhere."""
        self._end_in(GRACE_S)
        for limit in self._limits:
            limit.end_in(GRACE_S)

    def failed(self, found: Trouble, began_at: float) -> StoreUnavailable:
        """A command that was sent at ``began_at`` had no answer. The error to raise."""
        if found is CROWDED:
            # There is no connection more, and those that there are do.
            return self.refused(found)
        if self._heard_at < began_at and self._away is None:
            if self._known:
                log.warning("the store at %s is away: %s", self._name, found.text)
            self._away, self._away_at = found, _now()
            self._pause_s = 0.0
            self._look_at = self._away_at
        return unavailable(found)

    async def doubted(self, found: Trouble, began_at: float) -> StoreUnavailable:
        """As ``failed``, of a connection that had long been quiet: that it broke does not mean that the server did."""
        async with self._turn:
            if self._away is None and self._heard_at < began_at:
                try:
                    async with self.limit(LOOK_S):
                        await self._look()
                    self.heard()
                except (StoreUnavailable, TimeoutError):
                    return self.failed(found, began_at)
        return unavailable(found)

    def refused(self, found: Trouble) -> StoreUnavailable:
        """It answered, and would not. The error to raise."""
        if _now() - self._told_at.get(found.text, float("-inf")) > TELL_EVERY_S:
            self._told_at[found.text] = _now()
            log.warning("the store at %s: %s", self._name, found.text)
        return unavailable(found)

    def limit(self, within_s: float) -> Limit:
        """``async with`` it: raises ``TimeoutError`` after so long, or ``GRACE_S`` after the end of an outage."""
        return Limit(self._limits, within_s)


class Limit:
    """Counts its time in steps, so that a second in which this very process got no time, and could not have read an
    answer, is not laid to the server's charge.
    """

    __slots__ = ("_left", "_limits", "_loop", "_step_s", "_timeout", "_timer", "_until", "_within_s")

    def __init__(self, limits: set[Limit], within_s: float) -> None:
        self._limits = limits
        self._within_s = within_s
        self._step_s = within_s / STEPS
        self._left = STEPS
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + self._within_s
        await self._timeout.__aenter__()
        self._timer = self._loop.call_later(self._step_s, self._step)
        self._limits.add(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._limits.discard(self)
        self._timer.cancel()
        await self._timeout.__aexit__(kind, error, at)

    def _step(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._timer = self._loop.call_later(self._step_s, self._step)
        elif not self._timeout.expired():
            self._timeout.reschedule(self._loop.time())

    def end_in(self, within_s: float) -> None:
        """If it would take longer."""
        until = self._loop.time() + within_s
        if self._left > 0 and until < self._until:
            self._timer.cancel()
            self._left, self._until = 1, until
            self._timer = self._loop.call_later(within_s, self._step)


def _now() -> float:
    return asyncio.get_running_loop().time()

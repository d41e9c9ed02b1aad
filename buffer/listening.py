"""Answers read from their reply keys: by whoever comes back for one, from any gateway.

One reader polls for all of them; while nobody listens, nothing is asked.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence

import msgspec

from buffer.access import Command, StoreUnavailable
from buffer.failures import GOES_ON, LOST, TOO_LARGE
from buffer.frames import weight
from buffer.job import End, Event, Failure
from buffer.lanes import Lanes
from buffer.retold import Item, Retold
from buffer.timing import Backoff
from buffer.unread import MOST_UNREAD, PAUSE_ABOVE

log = logging.getLogger("doublebuffer.buffer")

TICK_S = 0.1
MOST_LISTENERS = 1024
"""In a process; more are told to come again."""
ENTRIES = 128
"""Of one answer in one turn."""
AT_ONCE = 64
"""Answers in one exchange with the store."""
GONE_S = 10.0
"""How long a job may be unknown to the store: its gateway may be putting it back after an outage."""
MOST_AWAY_S = 60.0


class Listener:
    """One reader of one answer. A source of its events, as a ``Follower`` is; closing it changes nothing for the job.

    ``after``: see ``Retold``. ``whole``: ``next`` gives nothing before the end. ``started``: the back end, where known.
    """

    def __init__(
        self, listening: Listening, lanes: Lanes, id: str, *, after: str = "", whole: bool = False, started: str = ""
    ) -> None:
        self.lanes = lanes
        self.id = id
        self.started: str | None = started or None
        self.started_at: float | None = None
        self.first_at: float | None = None
        self.last_at = 0.0
        self.last = ""
        """Id of the last entry that was read."""
        self._listening = listening
        self._whole = whole
        self._retold = Retold(after)
        self._items: list[Item] = []
        self._unread = 0
        self._end: End | None = None
        self._caught_up = False
        self._gone_since: float | None = None
        self._news = asyncio.Event()

    async def next(self, until_at: float = math.inf) -> list[Event] | End:
        """What has come since the last call, waiting for it; at last the end. Raises ``TimeoutError`` where nothing has
        come by ``until_at`` of the loop's clock.
        """
        async with asyncio.timeout_at(until_at):
            got = await self.pieces()
        return got if isinstance(got, End) else [item.event for item in got]

    async def pieces(self) -> list[Item] | End:
        """The same, each with its id. May be cancelled without losing anything; one caller at a time."""
        await self.wait()
        items, self._items, self._unread = self._items, [], 0
        self._news.clear()
        if items:
            return items
        assert self._end is not None
        return self._end

    async def wait(self) -> None:
        """Returns as soon as ``pieces`` would at once."""
        while self._end is None and (self._whole or not self._items):
            self._news.clear()
            await self._news.wait()

    async def found(self) -> bool:
        """Whether the reader's last piece is in the answer, once that is known."""
        while self._retold.seeking and not self._caught_up and self._end is None:
            self._news.clear()
            await self._news.wait()
        return not self._retold.seeking

    def had(self) -> list[Item]:
        """What the reader has, after ``found``; once."""
        had, self._retold.had = self._retold.had, []
        return had

    @property
    def end_id(self) -> str:
        return self._retold.end_id

    @property
    def started_us(self) -> int:
        """Instant of the first attempt, by the store's clock; 0: there was none yet."""
        return self._retold.started_us

    @property
    def full(self) -> bool:
        """Enough was read that its client has not got yet."""
        return not self._whole and self._unread > PAUSE_ABOVE

    @property
    def ended(self) -> bool:
        return self._end is not None

    def close(self) -> None:
        self._listening.close(self)

    def take(self, state: str | None, entries: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> None:
        """What the store had: the job's state, None without one, and then the entries behind ``last``."""
        if self._end is not None:
            return
        try:
            for raw_id, fields in entries:
                self.last = raw_id.decode()
                self._retold.add(self.last, fields)
        except (msgspec.MsgspecError, ValueError, KeyError):
            log.error("The reply of job %s cannot be read", self.id)
            self.fail(LOST)
            return
        now_at = time.perf_counter()
        if self._retold.started_us and self.started_at is None:
            self.started_at = now_at
        if items := self._retold.take():
            self.first_at, self.last_at = self.first_at or now_at, now_at
            self._items += items
            self._unread += sum(weight(item.event) for item in items)
        self._caught_up = self._caught_up or len(entries) < ENTRIES
        if self._retold.end is not None:
            self._end = self._retold.end
        elif self._unread > MOST_UNREAD:
            self._end = End("failed", TOO_LARGE)
        elif not entries:
            self._miss(state)
        else:
            self._gone_since = None
        self._news.set()

    def fail(self, failure: Failure) -> None:
        """Ends it here, whatever becomes of the job."""
        if self._end is None:
            self._end = End("failed", failure)
            self._news.set()

    def _miss(self, state: str | None) -> None:
        """Nothing more is there: of a job that has ended, or that nobody knows, nothing will come."""
        now = asyncio.get_running_loop().time()
        if state is not None and state != "done":
            self._gone_since = None
        elif state == "done" or now - (self._gone_since or now) > GONE_S:
            self._end = End("failed", LOST)
        else:
            self._gone_since = self._gone_since or now


class Listening:
    """All listeners of a process. ``run`` must run beside."""

    def __init__(self, *, tick_s: float = TICK_S, most: int = MOST_LISTENERS) -> None:
        self._tick_s = tick_s
        self._most = most
        self._open: dict[Listener, None] = {}
        self._any = asyncio.Event()

    def open(
        self, lanes: Lanes, id: str, *, after: str = "", whole: bool = False, started: str = ""
    ) -> Listener | None:
        """Somebody who wants a job's answer; None: too many do. See ``Listener``."""
        if len(self._open) >= self._most:
            return None
        listener = Listener(self, lanes, id, after=after, whole=whole, started=started)
        self._open[listener] = None
        self._any.set()
        return listener

    def close(self, listener: Listener) -> None:
        self._open.pop(listener, None)

    def stop(self) -> None:
        """Ends what everybody reads here; their jobs go on."""
        for listener in self._open:
            listener.fail(GOES_ON)

    async def run(self) -> None:
        """Reads, until cancelled; through any outage of the store."""
        backoff = Backoff()
        loop = asyncio.get_running_loop()
        back_at = loop.time()
        while True:
            if not self._open:
                self._any.clear()
                await self._any.wait()
                back_at = loop.time()
            try:
                more = await self._turn()
                backoff.reset()
                back_at = loop.time()
            except StoreUnavailable:
                if loop.time() - back_at > MOST_AWAY_S:
                    for listener in self._open:
                        listener.fail(LOST)
                await backoff.wait()
                continue
            await asyncio.sleep(0 if more else self._tick_s)

    async def _turn(self) -> bool:
        """One look at every answer. Gives whether there is more to be had at once."""
        due: dict[Lanes, list[Listener]] = {}
        for listener in self._open:
            if not listener.ended and not listener.full:
                due.setdefault(listener.lanes, []).append(listener)
        more = False
        for lanes, listeners in due.items():
            for start in range(0, len(listeners), AT_ONCE):
                more = await _read(lanes, listeners[start : start + AT_ONCE]) or more
        return more


async def _read(lanes: Lanes, listeners: Sequence[Listener]) -> bool:
    commands: list[Command] = []
    for one in listeners:
        # The state first: of a job that has ended by then, all entries are there.
        commands.append(("HGET", lanes.keys.job(one.id), "st"))
        begin = f"({one.last}" if one.last else "-"
        commands.append(("XRANGE", lanes.keys.reply(one.id), begin, "+", "COUNT", ENTRIES))
    results = await lanes.store.exchange(commands)
    more = False
    for one, state, entries in zip(listeners, results[::2], results[1::2], strict=True):
        for result in (state, entries):
            if isinstance(result, Exception):
                raise result
        one.take(None if state is None else state.decode(), entries)
        more = more or (len(entries) == ENTRIES and not one.ended and not one.full)
    return more

"""The lines of one offline batch under way: let in one by one, answered, tried again, and put into the books."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from buffer.offline import LineResult, LineUsage, OfflineBatch, Superseded
from gateway.dialects.offline import Line
from gateway.dialects.offline_results import answer_line, usage_of
from gateway.offline.answering import Answered, Answering
from gateway.offline.ending import line_id
from gateway.offline.entry import Entry, Ticket
from gateway.offline.reading import Lines
from gateway.offline.settling import Settling

MOST_TRIES = 5
"""Times that a line may fail at back ends, after all the attempts that its job had each time; what was refused before
one was at it does not count."""
MOST_TROUBLED = 32
"""Lines that wait for another try; with so many of them, no new one is begun."""
FLUSH_S = 5.0
"""How long it may take to keep what was answered, where the process is to stop."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
UNKNOWN_S = 30.0
"""How long a model may be missing from the back ends' lists before its lines are told that there is none."""


class Asking:
    """Used once. ``stop_feeding`` may be called at any time; cancelled, it leaves no job behind."""

    def __init__(
        self, batch: OfflineBatch, answering: Answering, entry: Entry, lines: Lines, settling: Settling
    ) -> None:
        self._batch = batch
        self._answering = answering
        self._entry = entry
        self._lines = lines
        self._settling = settling
        self._calm = asyncio.Event()
        self._calm.set()
        self._missing_since: float | None = None
        self._outside: set[asyncio.Task[None]] = set()
        """The feeder, and lines that wait for another try."""

    async def run(self, numbers: Iterable[int]) -> None:
        """Answers these lines. Raises ``Superseded``, ``FileLost`` and ``StoreUnavailable``, in a group."""
        settler: asyncio.Task[None] | None = None
        try:
            async with asyncio.TaskGroup() as books:
                settler = books.create_task(self._settling.run())
                async with asyncio.TaskGroup() as group:
                    feeder = group.create_task(self._feed(numbers, group))
                    self._outside.add(feeder)
                    feeder.add_done_callback(self._outside.discard)
                settler.cancel()
        finally:
            # What was answered is kept, however this ends; unless the batch is another's by now, or the store away.
            with suppress(Superseded, TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    await self._settling.flush()

    def stop_feeding(self) -> None:
        """What is under way comes to its end, and nothing else is begun."""
        for task in self._outside:
            task.cancel()

    async def _feed(self, numbers: Iterable[int], group: asyncio.TaskGroup) -> None:
        for number in numbers:
            await self._calm.wait()
            ticket = await self._enter()
            begun = False
            try:
                line = await self._lines.read(number)
                group.create_task(self._line(line, ticket))
                begun = True
            finally:
                if not begun:
                    self._entry.leave(ticket)

    async def _enter(self) -> Ticket:
        kept = self._batch.kept
        return await self._entry.enter(
            self._batch.model or "", embeds=kept.endpoint == "/v1/embeddings", owner=kept.owner, batch=kept.id
        )

    async def _line(self, line: Line, ticket: Ticket) -> None:
        request_id = f"req_{secrets.token_hex(16)}"
        fails, wait_s = 0, FIRST_WAIT_S
        while True:
            try:
                answered = await self._answering.answer(line.body, request_id)
            finally:
                self._entry.leave(ticket)
            fails += answered.tried and answered.again
            if not self._again(answered) or fails >= MOST_TRIES:
                break
            with self._troubles():
                await asyncio.sleep(max(wait_s, answered.retry_after_s) * random.uniform(0.7, 1.0))
                wait_s = min(LONGEST_WAIT_S, 2 * wait_s)
                ticket = await self._enter()
        id = line_id(self._batch.id, line.number)
        data = answer_line(id, line.custom_id, answered.status, answered.id or request_id, answered.body)
        ok = answered.status < 400
        await self._settling.put(LineResult(line.number, ok, data, usage_of(answered.body) if ok else LineUsage()))

    def _again(self, answered: Answered) -> bool:
        if not answered.unknown:
            self._missing_since = None
            return answered.again
        now_at = time.monotonic()
        self._missing_since = self._missing_since or now_at
        return now_at - self._missing_since < UNKNOWN_S

    @contextmanager
    def _troubles(self) -> Iterator[None]:
        """A line outside the lanes, for another try."""
        task = asyncio.current_task()
        assert task is not None
        self._outside.add(task)
        if len(self._outside) > MOST_TROUBLED:
            self._calm.clear()
        try:
            yield
        finally:
            self._outside.discard(task)
            self._calm.set()

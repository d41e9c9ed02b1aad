"""Pulls of models are carried out for clients that may leave; see ``Pulls``."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from backends.base import BackendError
from backends.management import ModelKeeper
from buffer.backend import BackendSpec
from buffer.pulls import Pulls
from buffer.store import StoreUnavailable
from buffer.timing import Backoff, wait_for
from gateway.dialects.management import NO_END, SUCCESS, Progress, failed

_log = logging.getLogger("doublebuffer.offline")
LOOK_S = 0.5
LEASE_S = 15.0
TELL_S = 0.2
"""So often it is told how far a pull is, at most,"""
MOST_LINES = 20
"""in so many lines."""


@dataclass(frozen=True, slots=True)
class _Taken:
    id: str
    holder: str
    spec: BackendSpec
    body: bytes


@dataclass(slots=True)
class _News:
    """Lines that have not been told yet; of many, the newest."""

    lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, lines: bytes) -> None:
        self.lines.extend(lines.splitlines(keepends=True))
        if self.lines:
            self.came.set()

    def take(self) -> bytes:
        lines = b"".join(self.lines)
        self.lines.clear()
        self.came.clear()
        return lines


class Pulling:
    """``run`` has to run beside."""

    def __init__(self, pulls: Pulls, specs: Mapping[str, BackendSpec], *, connect_timeout_s: float) -> None:
        """``specs``: the Ollama back ends, by name."""
        self._pulls = pulls
        self._specs = specs
        self._connect_timeout_s = connect_timeout_s
        self._running: set[str] = set()
        self.looked = asyncio.Event()
        """For what there is to be pulled, at least once."""

    @property
    def busy(self) -> bool:
        return bool(self._running)

    async def run(self, stopping: asyncio.Event) -> None:
        """Until it is to stop; what is under way then, others go on with."""
        async with asyncio.TaskGroup() as group:
            tasks: set[asyncio.Task[None]] = set()
            while not stopping.is_set():
                with suppress(StoreUnavailable):
                    for one in await self._take_on():
                        task = group.create_task(self._run(one))
                        tasks.add(task)
                        task.add_done_callback(tasks.discard)
                    self.looked.set()
                await wait_for(stopping, LOOK_S)
            for task in tasks:
                task.cancel()

    async def _take_on(self) -> list[_Taken]:
        """Those that nobody carries out and that can be here."""
        found = []
        for id in await self._pulls.idle():
            wanted = await self._pulls.read(id)
            spec = self._specs.get(wanted[0]) if wanted else None
            taken = _Taken(id, secrets.token_hex(8), spec, wanted[1]) if wanted and spec else None
            if taken and id not in self._running and await self._pulls.take(id, taken.holder, LEASE_S):
                self._running.add(id)
                found.append(taken)
        return found

    async def _run(self, taken: _Taken) -> None:
        ended = False
        try:
            async with asyncio.TaskGroup() as group:
                news = _News()
                beside = [group.create_task(self._renew(taken)), group.create_task(self._tell(taken, news))]
                last = await self._pull(taken, news)
                for task in beside:
                    task.cancel()
                if lines := news.take():
                    await _patiently(partial(self._pulls.tell, taken.id, lines))
                await _patiently(partial(self._pulls.end, taken.id, last))
                ended = True
        finally:
            self._running.discard(taken.id)
            if not ended:
                with suppress(StoreUnavailable):
                    await self._pulls.release(taken.id)

    async def _tell(self, taken: _Taken, news: _News) -> None:
        """As often as anybody looks."""
        while True:
            await news.came.wait()
            await _patiently(partial(self._pulls.tell, taken.id, news.take()))
            await asyncio.sleep(TELL_S)

    async def _pull(self, taken: _Taken, news: _News) -> bytes:
        """Its last line."""
        keeper = ModelKeeper(taken.spec, connect_timeout_s=self._connect_timeout_s)
        progress = Progress()
        try:
            async with keeper.send("POST", "/api/pull", taken.body) as passed:
                while not progress.done and not progress.failed:
                    piece = await passed.next()
                    lines = progress.flush() if piece is None else progress.feed(piece)
                    if progress.failed:
                        return lines[lines.rfind(b"\n", 0, -1) + 1 :]
                    news.add(lines)
                    if piece is None:
                        break
        except BackendError as error:
            return failed(error.message)
        except ValueError:
            return failed(NO_END)
        finally:
            await keeper.aclose()
        _log.info("back end %s: a pull has %s", taken.spec.name, "ended" if progress.done else "broken off")
        return SUCCESS if progress.done else failed(NO_END)

    async def _renew(self, taken: _Taken) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 4)
            await _patiently(partial(self._pulls.renew, taken.id, taken.holder, LEASE_S))


async def _patiently(work: Callable[[], Awaitable[None]]) -> None:
    """Does it once the store lets it."""
    backoff = Backoff()
    while True:
        try:
            await work()
            return
        except StoreUnavailable:
            await backoff.wait()

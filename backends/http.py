"""One connection to an engine, and the answer that is under way on it: HTTP/1.1 on the loop's own protocol.

A stream is many small reads, and each of them goes through here. httptools takes the chunks apart; what is left to do
for a read is to put its bytes where the reader of the answer finds them, and to wake that one.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import httptools

from backends.arriving import Arriving, ClosedError, NoHttpError
from buffer.timing import Deadline

MOST_UNREAD = 256 * 1024
"""Bytes of an answer that wait for their reader, above which the engine is not read."""
MOST_HEAD = 64 * 1024
"""Bytes of an answer's status and headers, or of anything else between two pieces of it; beyond this it is no HTTP."""


class Connection(Arriving, asyncio.Protocol):
    """Carries one request after the other. ``ask`` begins one; what comes of it is read by ``head`` and ``next``."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(Any, None)
        self._waiter: asyncio.Future[None] | None = None
        self._taker: Callable[[bytes], bool] | None = None
        self._deadline = Deadline(self._late)
        self.closed = False
        self.idle_since = 0.0
        self.fresh = True
        """Nothing was ever asked on it."""
        self._clear()

    # --- the one who asks

    def ask(self, head: bytes, body: bytes) -> None:
        """Sends a request; the one before has been read to its end."""
        if not self.fresh:
            self._clear()
        self.fresh = False
        try:
            self._transport.writelines([head, body])
        except RuntimeError as error:
            # Closed a moment ago: uvloop says so in words of its own.
            raise ClosedError("The connection was closed.") from error

    async def head(self, until_at: float) -> None:
        """Returns once status and headers are known. Raises ``OSError``; ``TimeoutError`` at ``until_at``."""
        while not self.status_code:
            if self._error is not None:
                raise self._error
            await self._more(until_at)

    async def next(self, until_at: float) -> bytes | None:
        """What came of the body since the last call, waiting for it if nothing has; None at its end. What came before
        a failure is given before that is raised.
        """
        while True:
            if self._parts:
                data = self._there()
                if self._held:
                    self._held = False
                    self._transport.resume_reading()
                return data
            if self.complete:
                return None
            if self._error is not None:
                raise self._error
            await self._more(until_at)

    def _there(self) -> bytes:
        """What has come of the body and was not given yet."""
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        return data

    async def flow(self, taker: Callable[[bytes], bool], until_at: float) -> None:
        """Gives what comes of the body to ``taker`` in the turn in which it comes, as long as that wants more: nobody
        is woken for it. Returns when it wants no more, at the answer's end, on a failure and at ``until_at``; what
        comes from then on, the failure too, is told by ``next``.
        """
        if self._parts or self.complete or self._error is not None:
            return
        waiter = self._more(until_at)
        self._taker = taker
        try:
            await waiter
        except TimeoutError:
            pass
        finally:
            self._taker = None

    def put_off(self, until_at: float) -> None:
        """``flow`` ends no earlier than so."""
        self._deadline.set(until_at)

    @property
    def at_end(self) -> bool:
        """All of the answer has come, and been given."""
        return self.complete and not self._parts

    def _more(self, until_at: float) -> asyncio.Future[None]:
        """Done once something has come."""
        self._deadline.set(until_at)
        self._waiter = self._loop.create_future()
        return self._waiter

    def _late(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(TimeoutError())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body to its end, however long it takes."""
        while (data := await self.next(math.inf)) is not None:
            yield data

    async def aclose(self) -> None:
        """Nothing: whoever keeps the connections looks after it."""

    @property
    def reusable(self) -> bool:
        """Another request may follow."""
        return self._stays and not (self.closed or self._parts)

    def close(self) -> None:
        self.closed = True
        self._deadline.clear()
        if self._transport is not None:
            self._transport.abort()

    # --- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._deadline.clear()
        if self.status_code and not self.complete and exc is None and self._ends_with_the_connection():
            self.on_message_complete()
        elif not self.complete:
            self._fail(ClosedError("The connection was closed."))

    def data_received(self, data: bytes) -> None:
        if self.complete or self.fresh:
            # Nobody asked for it: what comes next cannot be told from it.
            self.close()
            return
        self.heard = True
        parts = self._parts
        before = len(parts)
        if self._unpacking is not None:
            self._unpacking.begins()
        try:
            try:
                self._parser.feed_data(data)
            finally:
                if self._unpacking is not None:
                    self._unpacking.unpack(self._size)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, zlib.error) as error:
            self._fail(NoHttpError(str(error)))
            self.close()
            return
        if len(parts) > before:
            self._empty = 0
            if self._taker is not None and self._taken(self._taker):
                return
            self._size += sum(map(len, parts[before:]))
            if self._size > MOST_UNREAD and not self._held:
                self._held = True
                self._transport.pause_reading()
        else:
            self._empty += len(data)
            if self._empty > MOST_HEAD and not self.complete:
                self._fail(NoHttpError("The head of the answer, or what stands between its pieces, is too long."))
                self.close()
        if self._waiter is not None:
            self._wake()

    def _taken(self, taker: Callable[[bytes], bool]) -> bool:
        """Whether that has taken what there is, and wants more."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            # It has ended, or is to be stopped.
            return False
        try:
            return taker(self._there())
        except Exception as error:  # noqa: BLE001 - it is for whoever waits, and not for the loop
            waiter.set_exception(error)
            return False

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

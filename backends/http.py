"""One connection to an engine, and the answer that is under way on it: HTTP/1.1 on the loop's own protocol.

A stream is many small reads, and each of them goes through here. httptools takes the chunks apart; what is left to do
for a read is to put its bytes where the reader of the answer finds them, and to wake that one.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import AsyncIterator
from typing import Any, cast

import httptools

from buffer.timing import Deadline

MOST_UNREAD = 256 * 1024
"""Bytes of an answer that wait for their reader, above which the engine is not read."""
MOST_UNPACKED = 16 * 1024 * 1024
"""The same of one that came packed; what grows beyond this in one read is no answer."""
MOST_HEAD = 64 * 1024
"""Bytes of an answer's status and headers, or of anything else between two pieces of it; beyond this it is no HTTP."""
_ZIPPED = {"gzip": 31, "x-gzip": 31, "deflate": zlib.MAX_WBITS}


class NoHttpError(OSError):
    """What came is no HTTP."""


class ClosedError(ConnectionError):
    """The connection was closed before the answer was complete."""


class Connection(asyncio.Protocol):
    """Carries one request after the other. ``ask`` begins one; what comes of it is read by ``head`` and ``next``."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(Any, None)
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = Deadline(self._late)
        self.closed = False
        self.idle_since = 0.0
        self.fresh = True
        """Nothing was ever asked on it."""
        self._clear()

    def _clear(self) -> None:
        self.headers: dict[str, str] = {}
        self.status_code = 0
        self.complete = False
        """The answer has come to its end."""
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # of the parser's calls the one that comes for each token
        self._packed_at = 0
        """Where among the parts those begin that are still packed."""
        self._size = self._empty = 0
        self.heard = False
        """Something of the answer has come."""
        self._held = self._stays = False
        self._error: Exception | None = None
        self._unzip: Any = None
        self._parser = httptools.HttpResponseParser(self)

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
            if parts := self._parts:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                parts.clear()
                self._size = 0
                if self._held:
                    self._held = False
                    self._transport.resume_reading()
                return data
            if self.complete:
                return None
            if self._error is not None:
                raise self._error
            await self._more(until_at)

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

    def _ends_with_the_connection(self) -> bool:
        return not {"content-length", "transfer-encoding"} & self.headers.keys()

    def data_received(self, data: bytes) -> None:
        if self.complete or self.fresh:
            # Nobody asked for it: what comes next cannot be told from it.
            self.close()
            return
        self.heard = True
        parts = self._parts
        before = self._packed_at = len(parts)
        try:
            try:
                self._parser.feed_data(data)
            finally:
                if self._unzip is not None:
                    self._unpack()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, zlib.error) as error:
            self._fail(NoHttpError(str(error)))
            self.close()
            return
        if new := len(parts) - before:
            self._size += len(parts[-1]) if new == 1 else sum(map(len, parts[before:]))
            self._empty = 0
        else:
            self._empty += len(data)
        if self._empty > MOST_HEAD and not self.complete:
            self._fail(NoHttpError("The head of the answer, or what stands between its pieces, is too long."))
            self.close()
        elif self._size > MOST_UNREAD and not self._held:
            self._held = True
            self._transport.pause_reading()
        if self._waiter is not None:
            self._wake()

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # --- the parser

    def on_message_begin(self) -> None:
        if self.complete:
            raise NoHttpError("An answer came that nobody had asked for.")
        self._stays = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status_code:
            # Behind the body, or of another answer that nobody asked for.
            return
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
            return
        self.status_code = status
        wbits = _ZIPPED.get(self.headers.get("content-encoding", "").strip().lower())
        if wbits is not None:
            self._unzip = zlib.decompressobj(wbits=wbits)

    def _unpack(self) -> None:
        """What came packed of the body. Raises ``zlib.error``."""
        packed, size = self._parts[self._packed_at :], self._size
        del self._parts[self._packed_at :]
        try:
            for data in packed:
                plain = self._unzip.decompress(data, max(1, MOST_UNPACKED - size))
                if self._unzip.unconsumed_tail:
                    raise zlib.error("It unpacks to far too much.")
                if plain:
                    self._parts.append(plain)
                    size += len(plain)
        finally:
            self._packed_at = len(self._parts)

    def on_message_complete(self) -> None:
        if not self.status_code or self.complete:
            return
        if self._unzip is not None:
            self._unpack()
            if rest := self._unzip.flush():
                self._parts.append(rest)
            if not self._unzip.eof:
                self._fail(ClosedError("What was packed ended too early."))
                return
        self.complete = True
        # To be asked now: the parser forgets it.
        self._stays = self._parser.should_keep_alive()
        self._wake()

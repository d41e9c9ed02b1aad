"""A client's connection on which what is written in one turn of the loop goes out together: an answer's headers with
its body, and all tokens that have come by then. Nothing is held back beyond that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Gathered:
    """``transport`` as uvicorn uses it."""

    __slots__ = (
        "_loop",
        "_out",
        "_size",
        "_transport",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "resume_reading",
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._out: list[bytes] = []
        self._size = 0
        self.get_extra_info: Callable[..., Any] = transport.get_extra_info
        self.is_closing: Callable[[], bool] = transport.is_closing
        self.pause_reading: Callable[[], None] = transport.pause_reading
        self.resume_reading: Callable[[], None] = transport.resume_reading

    def write(self, data: bytes) -> None:
        """Raises what the transport would on a connection that is closed."""
        if self.is_closing():
            self._transport.write(b"")
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._size += len(data)
        if self._size > MOST_GATHERED:
            self._flush()

    def _flush(self) -> None:
        if out := self._out:
            self._out, self._size = [], 0
            try:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            except RuntimeError:
                # The client has left; uvloop says so in words of its own, and the protocol will hear of it.
                self._transport.abort()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        return self._size + self._transport.get_write_buffer_size()


MOST_GATHERED = 64 * 1024
"""Bytes that go out at once: beyond them, whether the client takes any more has to be found out."""

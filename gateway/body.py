"""A request's body: whole, raw, and no larger than allowed, whatever its content type says."""

from __future__ import annotations

import asyncio
import zlib

from buffer.job import Failure
from gateway.call import Call, Receive
from gateway.refusal import ClientLeft, Refusal

_INLINE_BYTES = 256 * 1024
"""As much is inflated on the spot; a thread for so little would cost more than it saves."""
_SLICE = 64 * 1024
PATIENCE_S = 30.0
"""How long a body may take to come,"""
SLOWEST_BYTES_S = 16 * 1024
"""and a second more for each so many bytes of it."""
TOO_SLOW = Failure("The request body did not come in time.", 408, "request_timeout")
_WBITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": zlib.MAX_WBITS}
"""Encodings of bodies → what zlib calls them."""


def body_here(call: Call, limit: int) -> bytes | None:
    """The body, if it has come already and as it is; None: ``read_body`` gives it. Raises ``Refusal`` (413, 503)."""
    if call.line is None or b"content-encoding" in call.headers:
        return None
    body = call.line.body_here()
    if body is not None:
        _take(call, len(body), limit)
    return body


async def read_body(call: Call, receive: Receive, limit: int) -> bytes:
    """The body, inflated where it came compressed. Raises ``Refusal`` (413, 415, 400, 408, 503) and ``ClientLeft``."""
    encoding = call.headers.get(b"content-encoding", b"").strip().lower()
    if encoding not in _WBITS and encoding not in {b"", b"identity"}:
        reason = "Request bodies may be sent as they are, with gzip or with deflate, in no other encoding."
        raise Refusal(Failure(reason, 415, "unsupported_encoding"))
    length = call.headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    body = call.line.body_here() if call.line is not None else None
    if body is None:
        body = await _come(call, receive, limit)
    else:
        _take(call, len(body), limit)
    if encoding in _WBITS and body:
        plain = await _inflate(body, encoding.decode(), limit)
        call.held.add(len(plain))
        return plain
    return body


def _take(call: Call, count: int, limit: int, before: int = 0) -> None:
    if before + count > limit:
        raise _too_large(limit)
    call.held.add(count)


async def _come(call: Call, receive: Receive, limit: int) -> bytes:
    """The body as it comes."""
    chunks: list[bytes] = []
    size = 0
    begun_at = asyncio.get_running_loop().time()
    while True:
        try:
            async with asyncio.timeout_at(begun_at + PATIENCE_S + size / SLOWEST_BYTES_S):
                message = await receive()
        except TimeoutError:
            raise Refusal(TOO_SLOW) from None
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk = message.get("body", b"")
        _take(call, len(chunk), limit, size)
        size += len(chunk)
        chunks.append(chunk)
        if not message.get("more_body", False):
            break
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _inflate(body: bytes, encoding: str, limit: int) -> bytes:
    wbits = _WBITS[encoding.encode()]
    if encoding == "deflate" and not _has_zlib_head(body):
        wbits = -zlib.MAX_WBITS  # some clients took the standard's word for the format that it has inside
    try:
        whole = zlib.decompressobj(wbits=wbits)
        plain = whole.decompress(body, min(limit, _INLINE_BYTES) + 1)
        if whole.eof and len(plain) <= limit:
            return plain
        size, ends = await asyncio.to_thread(_measure, body, wbits, limit)
        if size <= limit and ends:
            return await asyncio.to_thread(zlib.decompress, body, wbits, size)
    except zlib.error:
        raise Refusal(Failure(f"The request body says it is {encoding}, and is not.", 400, "")) from None
    if size > limit:
        raise _too_large(limit)
    raise Refusal(Failure(f"The request body's {encoding} data ends too early.", 400, ""))


def _measure(body: bytes, wbits: int, limit: int) -> tuple[int, bool]:
    """How much a body will be, counted no further than just over ``limit``, and whether its data has an end.

    Done before any of it is kept: a kilobyte may stand for a megabyte, and that must cost nobody the megabyte.
    Raises ``zlib.error``.
    """
    inflater = zlib.decompressobj(wbits=wbits)
    view, size = memoryview(body), 0
    for at in range(0, len(body), _SLICE):
        rest: bytes | memoryview = view[at : at + _SLICE]
        room = _INLINE_BYTES
        while size <= limit and not inflater.eof and (rest or not room):
            found = len(inflater.decompress(rest, _INLINE_BYTES))
            size, room = size + found, _INLINE_BYTES - found  # where there was no room, more is to come
            rest = inflater.unconsumed_tail
    return size, inflater.eof


def _has_zlib_head(body: bytes) -> bool:
    """By RFC 1950: the method, and a check over the first two bytes."""
    return len(body) > 1 and body[0] & 0x0F == zlib.DEFLATED and int.from_bytes(body[:2]) % 31 == 0


def _too_large(limit: int) -> Refusal:
    return Refusal(Failure(f"The request body is larger than {limit} bytes.", 413, "request_too_large"))

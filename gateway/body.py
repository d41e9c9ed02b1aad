"""A request's body: whole, raw, and no larger than allowed, whatever its content type says."""

from __future__ import annotations

import asyncio
import zlib

from buffer.job import Failure
from gateway.call import Call, Receive
from gateway.refusal import ClientLeft, Refusal

_INLINE_BYTES = 256 * 1024
"""As much is inflated on the spot; a thread for so little would cost more than it saves."""


async def read_body(call: Call, receive: Receive, limit: int) -> bytes:
    """The body, inflated where it came compressed. Raises ``Refusal`` (413, 415, 400) and ``ClientLeft``."""
    encoding = call.headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in {b"", b"identity", b"gzip", b"x-gzip"}:
        raise Refusal(Failure("Request bodies may be sent as they are or with gzip, in no other encoding.", 415, ""))
    length = call.headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            break
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if encoding in {b"gzip", b"x-gzip"} and body:
        return await _inflate(body, limit)
    return body


async def _inflate(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(wbits=31)
    first = min(limit, _INLINE_BYTES) + 1
    try:
        plain = inflater.decompress(body, first)
        if not inflater.eof and first <= limit:
            # How much it will be cannot be told from the body: a few kilobytes may stand for a hundred megabytes.
            rest = inflater.unconsumed_tail
            plain += await asyncio.to_thread(inflater.decompress, rest, limit + 1 - len(plain))
    except zlib.error:
        raise Refusal(Failure("The request body says it is gzip, and is not.", 400, "")) from None
    if len(plain) > limit:
        raise _too_large(limit)
    if not inflater.eof:
        raise Refusal(Failure("The request body's gzip data ends too early.", 400, ""))
    return plain


def _too_large(limit: int) -> Refusal:
    return Refusal(Failure(f"The request body is larger than {limit} bytes.", 413, "request_too_large"))

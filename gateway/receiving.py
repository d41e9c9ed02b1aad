"""A client's file on its way in: out of its form and to where it is kept, a piece at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from buffer.file_record import FILE_BYTES, FileRecord, NoRoom
from buffer.files import Files
from buffer.job import Failure
from gateway.body import TOO_SLOW
from gateway.call import Call, Receive
from gateway.dialects.errors import BadRequest
from gateway.dialects.offline_forms import read_upload
from gateway.intake import owner_of
from gateway.multipart import FileForm
from gateway.refusal import ClientLeft, Refusal
from gateway.upload import Upload

_MOST_FORM_BYTES = FILE_BYTES + 1024 * 1024
_PATIENCE_S = 2.0
"""How long the rest of a form that was refused is read: a client that still sends would not see why."""
_TOO_LARGE = Failure(f"A file may have {FILE_BYTES // 1024**2} MB at most.", 413, "request_too_large", "file")


async def receive_file(files: Files, call: Call, receive: Receive) -> FileRecord:
    """The file of a form, kept. Raises ``Refusal``, ``BadRequest`` and ``ClientLeft``."""
    if call.header(b"content-encoding").strip().lower() not in {"", "identity"}:
        raise Refusal(Failure("Files have to be sent as they are, in no encoding.", 415, "unsupported_encoding"))
    upload = Upload(receive)
    pieces = _pieces(upload)
    length = call.header(b"content-length")
    try:
        if length.isdigit() and int(length) > _MOST_FORM_BYTES:
            raise Refusal(_TOO_LARGE)
        form = FileForm(call.header(b"content-type"), pieces)
        return await files.receive(
            owner_of(call),
            form.chunks(),
            lambda: read_upload(form.fields, form.filename, has_file=form.has_file, now=int(time.time())),
        )
    except (Refusal, BadRequest):
        await _finish(pieces)
        raise
    except NoRoom as error:
        await _finish(pieces)
        raise Refusal(no_room(error), "refused") from None


async def _pieces(upload: Upload) -> AsyncIterator[bytes]:
    try:
        async for piece in upload.pieces():
            yield piece
    except OSError:
        if upload.left:
            raise ClientLeft from None
        raise Refusal(TOO_SLOW) from None


async def _finish(pieces: AsyncIterator[bytes]) -> None:
    """Reads what still comes, for a while."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for _ in pieces:
                pass
    except (TimeoutError, ClientLeft, Refusal):
        pass


def no_room(error: NoRoom) -> Failure:
    """What a client is told."""
    codes = {413: "request_too_large", 429: "too_many", 503: "store_full"}
    return Failure(str(error), error.status, codes.get(error.status, "disk_fails"))

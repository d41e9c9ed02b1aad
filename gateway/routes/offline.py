"""OpenAI's Files and Batch API: ``/v1/files`` and ``/v1/batches``. Everything there is of its owner alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Path, Request, Response

from buffer.file_record import MOST_FILES, FileLost, FileRecord, NoRoom
from buffer.job import Failure
from buffer.offline import Kept, OfflineBatch, UnknownFile, new_id
from buffer.offline_keys import WINDOW_S
from gateway.body import read_body
from gateway.call import Call, Receive, Scope, Send, call_of
from gateway.client import until_left
from gateway.dialects.errors import BadRequest
from gateway.dialects.offline_forms import (
    WINDOW,
    batch_object,
    file_object,
    list_object,
    no_such,
    parse_batch,
    read_page,
)
from gateway.intake import owner_of, user_of
from gateway.receiving import no_room, receive_file
from gateway.refusal import BrokenOff, ClientLeft, Refusal
from gateway.services import Services

_MOST_BATCH_BYTES = 64 * 1024
_MOST_PAGE, _USUAL_PAGE = 100, 20
_IN_USE = Failure("A batch reads this file; cancel it first, or wait for its end.", 400, "file_in_use", "file_id")
_FILE = Path(alias="file_id", description="The id of a file")
_BATCH = Path(alias="batch_id", description="The id of a batch")
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "purpose"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "purpose": {"type": "string", "enum": ["batch"]},
                    },
                }
            }
        },
    }
}
_WANTED = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}
_CONTENT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


def file_routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/v1/files", tags=["Files and batches"])
    files = services.files

    @router.post("", summary="A file for a batch", openapi_extra=_UPLOAD)
    async def upload(request: Request) -> dict[str, Any]:
        call = call_of(request.scope)
        return file_object(await receive_file(files, call, request.receive))

    @router.get("", summary="Your files")
    async def listed(request: Request) -> dict[str, Any]:
        wanted = read_page(request.query_params, most=MOST_FILES, usual=MOST_FILES)
        found, more = await files.page(
            owner_of(call_of(request.scope)),
            after=wanted.after,
            limit=wanted.limit,
            purpose=wanted.purpose,
            oldest_first=wanted.oldest_first,
        )
        return list_object([file_object(one) for one in found], more=more)

    @router.get("/{file_id}", summary="What is known of a file")
    async def read(request: Request, id: str = _FILE) -> dict[str, Any]:
        return file_object(await _file(services, call_of(request.scope), id))

    @router.get("/{file_id}/content", summary="A file", response_class=Response, responses=_CONTENT)
    async def content(request: Request, id: str = _FILE) -> Response:
        record = await _file(services, call_of(request.scope), id)
        pieces = files.chunks(record)
        try:
            first = await anext(pieces, b"")
        except FileLost as error:
            raise Refusal(Failure(str(error), 500, "file_lost", "file_id"), "backend_error") from None
        return _Content(record, first, pieces)

    @router.delete("/{file_id}", summary="Removes a file")
    async def delete(request: Request, id: str = _FILE) -> dict[str, Any]:
        record = await _file(services, call_of(request.scope), id)
        match await files.delete(record):
            case "read":
                raise Refusal(_IN_USE)
            case "unknown":
                raise Refusal(no_such("File", id))
            case _:
                return {"id": record.id, "object": "file", "deleted": True}

    return router


def batch_routes(services: Services, begun: Callable[[str], Awaitable[None]], none: Failure | None) -> APIRouter:
    """``begun``: called with the id of each new batch. ``none``: why there can be none here."""
    router = APIRouter(prefix="/v1/batches", tags=["Files and batches"])
    offline = services.offline

    @router.post("", summary="Requests that can wait", openapi_extra=_WANTED)
    async def create(request: Request) -> dict[str, Any]:
        if none is not None:
            raise Refusal(none)
        batch = await _create(services, call_of(request.scope), request.receive)
        await begun(batch.id)
        return batch_object(batch)

    @router.get("", summary="Your batches")
    async def listed(request: Request) -> dict[str, Any]:
        wanted = read_page(request.query_params, most=_MOST_PAGE, usual=_USUAL_PAGE)
        owner = owner_of(call_of(request.scope))
        found, more = await offline.page(owner, after=wanted.after, limit=wanted.limit)
        return list_object([batch_object(one) for one in found], more=more)

    @router.get("/{batch_id}", summary="How a batch stands")
    async def read(request: Request, id: str = _BATCH) -> dict[str, Any]:
        return batch_object(await _batch(services, call_of(request.scope), id))

    @router.post("/{batch_id}/cancel", summary="Cancels a batch")
    async def cancel(request: Request, id: str = _BATCH) -> dict[str, Any]:
        batch = await offline.cancel(await _batch(services, call_of(request.scope), id))
        if batch.status not in ("cancelling", "cancelled"):
            raise Refusal(Failure(f"Cannot cancel a batch with status '{batch.status}'.", 400, "", "batch_id"))
        return batch_object(batch)

    return router


async def _file(services: Services, call: Call, id: str) -> FileRecord:
    """Raises ``Refusal``."""
    record = await services.files.read(id, owner_of(call))
    if record is None:
        raise Refusal(no_such("File", id))
    return record


async def _batch(services: Services, call: Call, id: str) -> OfflineBatch:
    """Raises ``Refusal``."""
    batch = await services.offline.read(id, owner_of(call))
    if batch is None:
        raise Refusal(no_such("Batch", id))
    return batch


async def _create(services: Services, call: Call, receive: Receive) -> OfflineBatch:
    """Raises ``Refusal``, ``BadRequest`` and ``ClientLeft``."""
    wanted = parse_batch(await read_body(call, receive, _MOST_BATCH_BYTES))
    unknown = Refusal(no_such("File", wanted.input_file_id))
    record = await services.files.read(wanted.input_file_id, owner_of(call))
    if record is None:
        raise unknown
    if record.purpose != "batch":
        raise BadRequest("A batch reads a file that was uploaded with purpose 'batch'.", param="input_file_id")
    now = int(time.time())
    kept = Kept(
        id=new_id("batch_"),
        owner=owner_of(call),
        user=user_of(call),
        share=call.share,
        endpoint=wanted.endpoint,
        input_file_id=record.id,
        completion_window=WINDOW,
        created_at=now,
        expires_at=now + WINDOW_S,
        metadata=wanted.metadata,
        output_s=wanted.output_s,
        output_id=new_id("file-"),
        error_id=new_id("file-"),
    )
    try:
        await services.offline.create(kept)
    except UnknownFile:
        raise unknown from None
    except NoRoom as error:
        raise Refusal(no_room(error), "refused") from None
    return OfflineBatch(kept=kept, status="validating")


class _Content(Response):
    """A file on its way to its client, a piece at a time."""

    def __init__(self, record: FileRecord, first: bytes, rest: AsyncIterator[bytes]) -> None:
        super().__init__()
        self._record = record
        self._first = first
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(until_left(receive))
                await self._send(send)
                watcher.cancel()
        except* ClientLeft:
            pass
        except* FileLost:
            raise BrokenOff from None

    async def _send(self, send: Send) -> None:
        head = [
            (b"content-type", b"application/octet-stream"),
            (b"content-length", str(self._record.bytes).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"content-disposition", b"attachment"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self._first, "more_body": True})
        async for piece in self._rest:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

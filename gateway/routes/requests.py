"""``/v1/requests/{id}``: how a request stands, its answer once more, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Path, Request, Response

from buffer.job import End, Failure
from buffer.listening import Listener, Listening
from buffer.retold import Item
from buffer.standing import Standing
from gateway.call import SSE, Headers, Receive, Scope, Send, call_of
from gateway.client import until_left
from gateway.delivery import STREAM_HEADERS
from gateway.pools import Pool
from gateway.refusal import ClientLeft, Refusal
from gateway.requests import Retelling, find, read_place, told_of
from gateway.services import Services
from gateway.sharing import BUSY
from gateway.told import Told, read_told

_NO_STREAM = Failure("The answer to this request comes in one piece only, to whoever asked for it.", 404, "no_stream")
_CANCELLED = Failure("This request was cancelled, and what it had said is gone.", 404, "request_cancelled")
_LOST_PLACE = Failure(
    "What came before this Last-Event-ID is no longer known here; read the stream from its start.", 409, "lost_place"
)
_HEARTBEAT = b": keep-alive\n\n"
_AT_ONCE = 256
"""Pieces that are told without letting anybody else have a turn."""
_ID = Path(alias="id", description="The X-Doublebuffer-Id of the answer")
_STOPPING: dict[int | str, dict[str, Any]] = {202: {"description": "Its engine is told to stop"}}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "The answer's events, each with its id"}
}
_STATE = {
    "id": "9f1c…",
    "object": "request",
    "state": "waiting, running, done, failed, cancelled or expired",
    "lane": "fast",
    "model": "qwen3:14b",
    "detached": True,
    "queue_place": 1,
    "estimated_start": 1764510000.5,
    "backend": None,
    "attempts": 0,
    "failed_attempts": 0,
    "takeovers": 0,
    "timeline": {
        "arrival": 1764510000.1,
        "started": None,
        "pieces": [],
        "first_token": None,
        "tokens": [],
        "ended": None,
    },
    "error": None,
}
_TOLD: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"example": _STATE}}}}


def request_routes(services: Services, *, heartbeat_s: float) -> APIRouter:
    """``heartbeat_s``: how long a stream is left without a word."""
    router = APIRouter(prefix="/v1/requests", tags=["Requests"])
    pools = [*services.pools.values(), *services.embedding_pools.values()]

    @router.get("/{id}", summary="How a request stands", responses=_TOLD)
    async def state(request: Request, id: str = _ID) -> dict[str, Any]:
        standing, _ = await find(pools, id, call_of(request.scope))
        return told_of(standing, services.intake)

    @router.delete("/{id}", summary="Cancels a request", responses=_TOLD | _STOPPING)
    async def cancel(request: Request, response: Response, id: str = _ID) -> dict[str, Any]:
        call = call_of(request.scope)
        standing, pool = await find(pools, id, call)
        if standing.end is None:
            told = read_told(standing.told)
            for one in [id, *(told.more if told else ())]:
                await pool.lanes.cancel(one)
            standing, _ = await find(pools, id, call)
            response.status_code = 200 if standing.end is not None else 202
        return told_of(standing, services.intake)

    @router.get("/{id}/stream", summary="The answer to a request", responses=_EVENTS, response_class=Response)
    async def stream(request: Request, id: str = _ID) -> Response:
        call = call_of(request.scope)
        standing, pool = await find(pools, id, call)
        told = read_told(standing.told)
        if told is None:
            raise Refusal(_NO_STREAM if standing.end is None or standing.end.kind != "cancelled" else _CANCELLED)
        ids = [id, *told.more]
        places, skipped = read_place(call.header(b"last-event-id"), len(ids))
        return _Stream(services.listening, _Reader(standing, pool, told, ids, places, skipped), heartbeat_s)

    return router


@dataclass(frozen=True, slots=True)
class _Reader:
    standing: Standing
    pool: Pool
    told: Told
    ids: Sequence[str]
    places: Sequence[str]
    """What it has of the answer of each job, and"""
    skipped: int
    """how many events behind that; see ``read_place``."""


class _Stream(Response):
    """Reads the answers of all jobs of a request, and tells them as one."""

    def __init__(self, listening: Listening, reader: _Reader, heartbeat_s: float) -> None:
        super().__init__()
        self._listening = listening
        self._reader = reader
        self._standing = reader.standing
        self._heartbeat_s = heartbeat_s
        self._retelling = Retelling(reader.told, reader.standing.id, reader.places, reader.skipped)
        self._listeners: list[Listener] = []
        self._headed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(until_left(receive))
                await self._tell(send, group)
                watcher.cancel()
            if not self._headed:
                raise Refusal(_LOST_PLACE)
        except* ClientLeft:
            pass
        finally:
            for listener in self._listeners:
                listener.close()

    async def _open(self) -> None:
        """Finds the reader's place in the answers. Raises ``Refusal``."""
        for id, place in zip(self._reader.ids, self._reader.places, strict=True):
            listener = self._listening.open(self._reader.pool.lanes, id, after=place)
            if listener is None:
                raise Refusal(BUSY, "refused")
            self._listeners.append(listener)
        for job, listener in enumerate(self._listeners):
            if not await listener.found():
                raise Refusal(_LOST_PLACE)
            self._retelling.had(job, listener.had())

    async def _tell(self, send: Send, group: asyncio.TaskGroup) -> None:
        """Returns without having sent a head where the reader's place turns out to be none."""
        if self._is_over():
            # By this a browser's EventSource stops coming back.
            self._headed = True
            await send({"type": "http.response.start", "status": 204, "headers": self._about()})
            await send({"type": "http.response.body", "body": b""})
            return
        if not self._reader.skipped:
            await self._send(send, b"")
        reads: dict[asyncio.Task[list[Item] | End], int] = {}
        open_jobs = set(range(len(self._listeners)))
        end = End("done")
        while open_jobs and end.kind == "done":
            for job in open_jobs.difference(reads.values()):
                reads[group.create_task(self._listeners[job].pieces())] = job
            done, _ = await asyncio.wait(reads, timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                await self._send(send, _HEARTBEAT)
            for read in done:
                job, got = reads.pop(read), read.result()
                if isinstance(got, End):
                    open_jobs.discard(job)
                    end = got if got.kind != "done" else end
                else:
                    await self._pieces(job, got, send)
            if self._lost:
                break
        for read in reads:
            read.cancel()
        ids = [listener.end_id for listener in self._listeners]
        if self._lost:
            return
        last = self._retelling.end(end, ids, queued_s=self._queued_s())
        if not self._lost:
            await self._send(send, last, more=False)

    async def _pieces(self, job: int, items: Sequence[Item], send: Send) -> None:
        for start in range(0, len(items), _AT_ONCE):
            data = b"".join(self._retelling.feed(job, item) for item in items[start : start + _AT_ONCE])
            if self._lost:
                return
            if data:
                await self._send(send, data)
            if len(items) > _AT_ONCE:
                await asyncio.sleep(0)

    def _is_over(self) -> bool:
        """The reader has all of it, the end too."""
        ends = [listener.end_id for listener in self._listeners]
        return all(ends) and ends == list(self._reader.places)

    @property
    def _lost(self) -> bool:
        return self._retelling.astray and not self._headed

    async def _send(self, send: Send, data: bytes, *, more: bool = True) -> None:
        if not self._headed:
            self._headed = True
            head = [(b"content-type", SSE), *STREAM_HEADERS, *self._about()]
            await send({"type": "http.response.start", "status": 200, "headers": head})
        if data or not more:
            await send({"type": "http.response.body", "body": data, "more_body": more})

    def _about(self) -> Headers:
        standing = self._standing
        about = [(b"x-doublebuffer-id", standing.id.encode()), (b"x-doublebuffer-lane", standing.lane.encode())]
        if standing.backend:
            about.append((b"x-doublebuffer-backend", standing.backend.encode("ascii", "replace")))
        return about

    def _queued_s(self) -> float:
        started_us = next((one.started_us for one in self._listeners if one.started_us), self._standing.arrived_us)
        return max(0.0, (started_us - self._standing.arrived_us) / 1e6)

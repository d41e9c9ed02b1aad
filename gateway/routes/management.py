"""The routes by which models come to the Ollama back ends and go, passed through as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from fastapi import APIRouter, Response

from backends.base import BackendError
from backends.failures import from_payload
from backends.management import ModelKeeper, Passed
from buffer.job import Failure
from gateway.body import TOO_SLOW, read_body
from gateway.call import JSON, Call, Receive, Scope, Send, answer, call_of
from gateway.client import until_left
from gateway.dialects import ollama
from gateway.dialects.errors import BadRequest, headers
from gateway.dialects.management import NO_END, SERVED, SUCCESS, Progress, Wanted, check_digest, failed, parse
from gateway.refusal import ClientLeft, Refusal
from gateway.routes.pulls import CHOSEN, CarriedPulls, names, open_lines, piece
from gateway.services import Services
from gateway.upload import Upload


class ManagementRoute:
    """One of these routes, as an ASGI application."""

    def __init__(self, services: Services, heartbeat_s: float) -> None:
        self._management = services.management
        self._most_bytes = services.settings.max_body_bytes
        self._heartbeat_s = heartbeat_s
        self._carried = CarriedPulls(services.store, heartbeat_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        failure: Failure | None = None
        try:
            if call.path.startswith("/api/blobs/"):
                await self._blob(call, receive, send)
            else:
                body = await read_body(call, receive, self._most_bytes)
                await self._while_there(receive, lambda group: self._pass(call, body, send, group))
        except (BadRequest, Refusal) as error:
            failure = error.failure
        except BackendError as error:
            failure = _failure(error)
        except ClientLeft:
            return
        if failure is not None:
            await answer(send, failure.status, JSON, ollama.error(failure), headers(failure))

    @staticmethod
    async def _while_there(receive: Receive, work: Callable[[asyncio.TaskGroup], Awaitable[None]]) -> None:
        """Does the work; ends it when the client leaves. Raises the first of what it raises."""
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(until_left(receive))
                await work(group)
                watcher.cancel()
        except* (BadRequest, Refusal, BackendError, ClientLeft) as several:
            raise several.exceptions[0] from None

    async def _pass(self, call: Call, body: bytes, send: Send, group: asyncio.TaskGroup) -> None:
        path = call.path
        verb = path.removeprefix("/api/")
        wanted = parse(path, body)
        chosen = call.header(CHOSEN).strip()
        if path == "/api/delete":
            for keeper in await self._management.holders(chosen, wanted.model, verb=verb):
                async with keeper.send("DELETE", path, wanted.body) as passed:
                    await passed.whole()
                await self._management.known(keeper, wanted.model, there=False)
            await answer(send, 200, JSON, b"")
            return
        if path == "/api/pull" and await self._management.serves(wanted.model):
            await _tell_served(send, wanted)
            return
        source = wanted.model if path == "/api/pull" else "" if wanted.blobs else wanted.source
        keeper = await self._management.one(chosen, source, verb=verb)
        if path == "/api/pull" and await self._carried.takes(keeper):
            await self._carried.follow(keeper, wanted, send, partial(self._known, keeper, wanted))
            return
        async with keeper.send("POST", path, wanted.body) as passed:
            if path == "/api/copy" or not wanted.stream:
                told = await passed.whole()
                if path != "/api/copy":
                    _check(keeper.spec.name, told)
                await self._known(keeper, wanted)
                await answer(send, passed.status, JSON, told, names(keeper))
            else:
                await self._progress(keeper, wanted, passed, send, group)

    async def _known(self, keeper: ModelKeeper, wanted: Wanted) -> None:
        if wanted.path != "/api/push":
            await self._management.known(keeper, wanted.model, there=True)

    async def _progress(
        self, keeper: ModelKeeper, wanted: Wanted, passed: Passed, send: Send, group: asyncio.TaskGroup
    ) -> None:
        """Lines as they come. While there is nothing new, the last one again."""
        await open_lines(send, keeper)
        progress = Progress()
        read = group.create_task(_next(passed))
        last_words = b""
        while not last_words:
            await asyncio.wait({read}, timeout=self._heartbeat_s)
            if not read.done():
                if progress.last:
                    await piece(send, progress.last)
                continue
            data = read.result()
            try:
                lines = progress.flush() if data is None else progress.feed(_told(data))
            except (BackendError, ValueError) as error:
                last_words = failed(error.message if isinstance(error, BackendError) else NO_END)
                continue
            if lines:
                await piece(send, lines)
            if progress.done:
                await self._known(keeper, wanted)
                last_words = SUCCESS
            elif data is None:
                break
            else:
                read = group.create_task(_next(passed))
        if not last_words and not progress.failed:
            last_words = failed(NO_END)
        await send({"type": "http.response.body", "body": last_words})

    async def _blob(self, call: Call, receive: Receive, send: Send) -> None:
        """A file of any size, a piece at a time."""
        check_digest(call.path.removeprefix("/api/blobs/"))
        keeper = await self._management.one(call.header(CHOSEN).strip(), verb="create")
        if call.method == "HEAD":
            await answer(send, 200 if await keeper.has(call.path) else 404, JSON, b"", names(keeper))
            return
        if call.header(b"content-encoding").strip().lower() not in {"", "identity"}:
            raise Refusal(Failure("Blobs have to be sent as they are, in no encoding.", 415, ""))
        upload = Upload(receive)
        told_length = call.header(b"content-length")
        length = int(told_length) if told_length.isdigit() else None
        try:
            async with keeper.send("POST", call.path, upload.pieces(), length=length) as passed:
                told = await passed.whole()
        except BackendError:
            if upload.left:
                raise ClientLeft from None
            if upload.slow:
                raise Refusal(TOO_SLOW) from None
            raise
        await answer(send, passed.status, JSON, told, names(keeper))


async def _next(passed: Passed) -> bytes | BackendError | None:
    """An error as a value: raised, it would end everything around it before a word about it was sent."""
    try:
        return await passed.next()
    except BackendError as error:
        return error


def _told(data: bytes | BackendError) -> bytes:
    if isinstance(data, BackendError):
        raise data
    return data


def _check(name: str, told: bytes) -> None:
    """Raises ``BackendError`` if an answer in one piece does not tell of success."""
    progress = Progress()
    progress.feed(told + b"\n")
    if progress.failed:
        raise from_payload(name, progress.error)
    if not progress.done:
        raise BackendError(NO_END, kind="failed")


async def _tell_served(send: Send, wanted: Wanted) -> None:
    if wanted.stream:
        await open_lines(send, None)
        await send({"type": "http.response.body", "body": SERVED + SUCCESS})
    else:
        await answer(send, 200, JSON, SUCCESS.strip())


def _failure(error: BackendError) -> Failure:
    return Failure(error.message, error.status, error.code, error.param)


def management_routes(services: Services, *, heartbeat_s: float) -> APIRouter:
    """``heartbeat_s``: how long a client is left without a word of how far it is."""
    route = ManagementRoute(services, heartbeat_s)
    router = APIRouter(tags=["Models"])

    class Routed(Response):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await route(scope, receive, send)

    async def passed() -> Response:
        return Routed()

    async def blob(digest: str) -> Response:
        return Routed()

    for path, (method, summary) in _ROUTES.items():
        router.add_api_route(path, passed, methods=[method], summary=summary, openapi_extra=_BODY)
    router.add_api_route("/api/blobs/{digest}", blob, methods=["POST"], summary="A file to make a model of")
    router.add_api_route("/api/blobs/{digest}", blob, methods=["HEAD"], include_in_schema=False)
    return router


_ROUTES = {
    "/api/pull": ("POST", "A model comes to an Ollama back end"),
    "/api/push": ("POST", "A model goes from an Ollama back end to a registry"),
    "/api/create": ("POST", "A model is made at an Ollama back end"),
    "/api/copy": ("POST", "A model of an Ollama back end gets another name"),
    "/api/delete": ("DELETE", "A model goes from the Ollama back ends"),
}
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}

"""``POST /v1/chat/completions`` and ``POST /api/chat``: the way that nearly every request takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from fastapi import APIRouter, Response

from buffer.job import Chat, Failure
from buffer.telemetry import Api, Outcome
from gateway.answering import Detached, Hears
from gateway.answers import ALONE, Found, Joined, Own
from gateway.body import body_here, read_body
from gateway.call import JSON, AsgiApp, Call, Receive, Scope, Send, answer, call_of
from gateway.client import Client
from gateway.dialects.errors import BadRequest, headers
from gateway.flights import First
from gateway.forms import Form
from gateway.intake import ASKS_TO_THINK, Order, owner_of
from gateway.joining import Claim
from gateway.models import Model
from gateway.pools import Pool
from gateway.refusal import BrokenOff, ClientLeft, Refusal
from gateway.services import Services
from gateway.told import DETACH, detaches, tell
from gateway.wish import wished

T = TypeVar("T")

STOPPING = Failure("The gateway is stopping.", 503, "stopping", retry_after_s=5)
DETACHED = Detached()
LARGE_BYTES = 256 * 1024
"""Bodies above this are worked on beside the loop: every answer waits while it is held up."""


class ChatRoute:
    """Chats of one dialect, as an ASGI application."""

    def __init__(self, form: Form, services: Services) -> None:
        self._form = form
        self._services = services
        self._telemetry = services.telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_at, created = time.perf_counter(), time.time()
        call, services = call_of(scope), self._services
        failure: Failure | None = None
        outcome: Outcome | None = "client_error"
        breaks = False
        lane = "none"
        try:
            if services.ended.is_set():
                raise Refusal(STOPPING, "refused")
            most_bytes = services.settings.max_body_bytes
            if (body := body_here(call, most_bytes)) is None:
                body = await read_body(call, receive, most_bytes)
            large = len(body) > LARGE_BYTES
            det = DETACH in call.headers and detaches(call)
            claim = None
            if b"idempotency-key" in call.headers:
                claim = await beside(large, partial(Claim.of, call, owner_of(call), body, det=det))
            chats = await asyncio.to_thread(self._parse, body) if large else self._parse(body)
            del body
            name = chats[0].model
            model = services.catalog.ready(name) or await self._resolved(name)
            self._think(chats, model)
            load_answer = self._form.load_answer
            if load_answer is not None and (loaded := load_answer(chats[0], time.time())) is not None:
                await services.management.keep(model, chats[0])
                await answer(send, 200, JSON, loaded)
                outcome = "ok"
            else:
                pool = services.pools[model.pool]
                found: Own | Found | Joined = ALONE
                if services.answers is not None:
                    found = await self._look(large, chats, model, pool, call, alone=det or claim is not None)
                client = Client(self._form, call, receive, send, arrived_at, created, found.cache)
                if isinstance(found, Own):
                    outlives = det or claim is not None or found.first is not None
                    order = partial(self._orders, chats, model, pool, call, det=outlives, created=created, id=found.id)
                    orders = await asyncio.to_thread(order) if large else order()
                    lane = orders[0].job.lane
                    if call.span is not None:
                        call.span.job(orders[0].job)
                    outcome, breaks = await self._answer(claim, orders, client, found, det=det)
                else:
                    lane = found.lane
                    another = partial(self._order, large, chats, model, pool, call, created=created)
                    outcome, breaks = await found.answer(client, chats[0], another)
        except BadRequest as error:
            failure = error.failure
        except Refusal as refusal:
            failure, outcome = refusal.failure, refusal.outcome
        except ClientLeft:
            outcome = "cancelled"
        if failure is not None:
            await answer(send, failure.status, JSON, self._form.error(failure), headers(failure))
        if outcome is not None:
            self._telemetry.request_ended(self._form.api, lane, outcome)
        if call.span is not None:
            call.span.ended(lane, outcome or "left")
        if lane in self._telemetry.request_time:
            self._telemetry.request_time[lane].observe(time.perf_counter() - arrived_at)
        if breaks:
            raise BrokenOff

    def _parse(self, body: bytes) -> list[Chat]:
        asked = self._form.parse(body, allow_image_urls=self._services.settings.allow_image_urls)
        return asked if isinstance(asked, list) else [asked]

    def _orders(
        self, chats: Sequence[Chat], model: Model, pool: Pool, call: Call, *, det: bool, created: float, id: str
    ) -> list[Order]:
        order = self._services.intake.order
        first = chats[0]
        more = [order(chat, model, pool, call, det=det) for chat in chats[1:]] if len(chats) > 1 else []
        return [order(first, model, pool, call, told=tell(first, call, created, more), det=det, id=id), *more]

    async def _order(
        self,
        large: bool,
        chats: Sequence[Chat],
        model: Model,
        pool: Pool,
        call: Call,
        *,
        created: float,
        id: str = "",
        det: bool = False,
    ) -> Order:
        """The job of a request that was to have none of its own."""
        make = partial(self._orders, chats, model, pool, call, det=det, created=created, id=id)
        return (await beside(large, make))[0]

    async def _look(
        self, large: bool, chats: Sequence[Chat], model: Model, pool: Pool, call: Call, *, alone: bool
    ) -> Own | Found | Joined:
        """What there is to such a question already."""
        answers = self._services.answers
        if answers is None:
            return ALONE
        asking = await beside(large, partial(answers.asking, chats, model, pool, call))
        return await answers.look(asking, chats[0], call, alone=alone)

    def _answer(
        self, claim: Claim | None, orders: Sequence[Order], client: Client, own: Own, *, det: bool
    ) -> Awaitable[tuple[Outcome | None, bool]]:
        if claim is not None:
            return self._services.joining.run(claim, orders, client, hears=own.hears)
        if own.first is not None:
            return self._answer_first(own.first, orders, client, own.hears)
        order, *more = orders
        return self._services.relay.run(order, client, more=more, outlives=DETACHED if det else None, hears=own.hears)

    async def _answer_first(
        self, first: First, orders: Sequence[Order], client: Client, hears: Hears | None
    ) -> tuple[Outcome | None, bool]:
        order, *more = orders
        try:
            return await self._services.relay.run(order, client, more=more, outlives=first, hears=hears)
        except Refusal:
            await first.refused()
            raise

    async def _resolved(self, name: str) -> Model:
        model = await self._services.catalog.resolve(name)
        if model is None:
            raise Refusal(self._form.unknown_model(name))
        return model

    def _think(self, chats: Sequence[Chat], model: Model) -> None:
        """Raises ``Refusal``."""
        chat = chats[0]
        think = wished(chat, model, soft_switches=self._services.settings.soft_switches)
        for one in chats:
            one.think = think
        refuses = self._form.cannot_think
        if refuses is not None and think in ASKS_TO_THINK and not model.can_think:
            raise Refusal(refuses(chat.model))


async def beside(large: bool, work: Callable[[], T]) -> T:
    """What ``work`` gives, done in a thread where it is large."""
    return await asyncio.to_thread(work) if large else work()


def chat_routes(hot: Mapping[str, tuple[Api, AsgiApp]]) -> APIRouter:
    """The same routes for FastAPI, whose documentation shows them. Requests reach them past its routing."""
    router = APIRouter(tags=["Chat"])
    for path, (_, route) in hot.items():
        router.add_api_route(path, _documented(route), methods=["POST"], summary=_SUMMARIES[path], openapi_extra=_BODY)
    return router


_SUMMARIES = {
    "/v1/chat/completions": "A chat, in OpenAI's form",
    "/v1/completions": "Text that goes on from a prompt, in OpenAI's form",
    "/v1/responses": "A chat, in the form of OpenAI's Responses",
    "/v1/messages": "A chat, in Anthropic's form",
    "/api/chat": "A chat, in Ollama's form",
    "/api/generate": "An answer to a prompt, in Ollama's form",
    "/v1/embeddings": "Embeddings, in OpenAI's form",
    "/api/embed": "Embeddings, in Ollama's form",
    "/api/embeddings": "One embedding, in Ollama's older form",
}
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}}


def _documented(route: AsgiApp) -> Callable[[], Awaitable[Response]]:
    class Routed(Response):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await route(scope, receive, send)

    async def chat() -> Response:
        return Routed()

    return chat

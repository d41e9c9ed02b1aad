"""The answer to one line of an offline batch: the very way that a client's request goes, but for the connection."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from msgspec import structs

from buffer.job import Chat, Failure
from buffer.records import NewJob
from buffer.store import StoreUnavailable
from buffer.telemetry import Outcome
from gateway.call import Call, Message
from gateway.catalog import STORE_AWAY
from gateway.client import Client
from gateway.dialects import openai
from gateway.dialects.errors import BadRequest
from gateway.embedding import EmbedForm
from gateway.forms import COMPLETIONS, OPENAI, Form
from gateway.intake import Order
from gateway.models import Model
from gateway.pools import Pool
from gateway.refusal import UNEXPECTED, Refusal
from gateway.routes.chat import LARGE_BYTES, beside
from gateway.routes.embeddings import OPENAI_EMBEDDINGS
from gateway.services import Parts
from gateway.wish import wished

_log = logging.getLogger("doublebuffer.offline")
_FORMS: Final[Mapping[str, Form | EmbedForm]] = {
    "/v1/chat/completions": OPENAI,
    "/v1/completions": COMPLETIONS,
    "/v1/embeddings": OPENAI_EMBEDDINGS,
}
_UNKNOWN: Final = openai.unknown_model("").code


@dataclass(frozen=True, slots=True)
class Whose:
    """Who sent an offline batch, and how its lines are known by that."""

    owner: str
    user: str
    share: int
    """Thousandths of a back end's places that jobs of its key may have while others wait; 0: no limit."""


@dataclass(slots=True)
class Answered:
    """What a client would have got."""

    status: int
    body: bytes
    id: str = ""
    """Of the job; empty: there was none."""
    tried: bool = False
    """A back end was at it."""
    outcome: Outcome = "client_error"
    retry_after_s: float = 0.0
    """When to try again, where somebody knows."""
    unknown: bool = False
    """No back end tells of its model."""

    @property
    def again(self) -> bool:
        """Whether another try may end otherwise."""
        return self.status == 429 or self.status >= 500


@dataclass(slots=True)
class _Kept:
    """The client's end of a connection that there is not."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.body += message.get("body", b"")

    @staticmethod
    async def receive() -> Message:
        """Nobody leaves; what is not wanted any more is cancelled."""
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


class Answering:
    """Answers lines for one endpoint and one sender."""

    def __init__(self, parts: Parts, endpoint: str, whose: Whose, until_at: float) -> None:
        """``until_at``: seconds since 1970; a line that has not begun by then expires."""
        self._parts = parts
        self._endpoint = endpoint
        self._form = _FORMS[endpoint]
        self._whose = whose
        self._until_at = until_at

    async def answer(self, body: bytes, request_id: str) -> Answered:
        """However it ends, no job is left behind; may be cancelled. ``body``: of the request."""
        kept = _Kept()
        arrived_at, created = time.perf_counter(), time.time()
        failure: Failure | None = None
        outcome: Outcome = "client_error"
        try:
            if isinstance(self._form, Form):
                client = Client(self._form, self._call(request_id), kept.receive, kept.send, arrived_at, created)
                outcome = await self._chat(client, body)
            else:
                outcome = await self._embed(self._form, body, self._call(request_id), kept, arrived_at)
        except BadRequest as error:
            failure = error.failure
        except Refusal as refusal:
            failure, outcome = refusal.failure, refusal.outcome
        except StoreUnavailable:
            failure, outcome = STORE_AWAY, "refused"
        except Exception as error:  # noqa: BLE001 - one that nobody was prepared for must not end all the others
            _log.error("a line of an offline batch failed unexpectedly: %s", type(error).__name__)
            failure, outcome = UNEXPECTED, "backend_error"
        lane = "background" if isinstance(self._form, Form) else "none"
        self._parts.telemetry.request_ended("batch", lane, outcome)
        if lane in self._parts.telemetry.request_time:
            self._parts.telemetry.request_time[lane].observe(time.perf_counter() - arrived_at)
        if failure is not None:
            after_s = failure.retry_after_s or 0
            unknown = failure.code == _UNKNOWN
            body = self._form.error(failure)
            return Answered(failure.status, body, outcome=outcome, retry_after_s=after_s, unknown=unknown)
        after = kept.headers.get(b"retry-after", b"")
        return Answered(
            kept.status,
            bytes(kept.body),
            kept.headers.get(b"x-doublebuffer-id", b"").decode(),
            b"x-doublebuffer-backend" in kept.headers,
            outcome,
            float(after) if after.isdigit() else 0.0,
        )

    async def _chat(self, client: Client, body: bytes) -> Outcome:
        parts, form, large = self._parts, client.form, len(body) > LARGE_BYTES
        asked = await beside(large, partial(form.parse, body, allow_image_urls=parts.settings.allow_image_urls))
        chats = asked if isinstance(asked, list) else [asked]
        model = await self._model(chats[0].model, form.unknown_model)
        think = wished(chats[0], model, soft_switches=parts.settings.soft_switches)
        for chat in chats:
            chat.think = think
        pool = parts.pools[model.pool]
        first, *more = await beside(large, lambda: [self._order(chat, model, pool, client.call) for chat in chats])
        outcome, _ = await parts.relay.run(first, client, more=more)
        return outcome or "cancelled"

    def _order(self, chat: Chat, model: Model, pool: Pool, call: Call) -> Order:
        order = self._parts.intake.order(chat, model, pool, call)
        # Some prompts look like Open WebUI's own, which wait for a chat of their user's.
        return structs.replace(order, job=self._ours(order.job), title=False)

    async def _embed(self, form: EmbedForm, body: bytes, call: Call, kept: _Kept, arrived_at: float) -> Outcome:
        parts = self._parts
        asked = await beside(len(body) > LARGE_BYTES, partial(form.parse, body))
        model = await self._model(asked.embed.model, form.unknown_model)
        order = parts.embeddings.order(asked, form, model, parts.embedding_pools[model.pool], call)
        order = replace(order, job=self._ours(order.job))
        return await parts.embeddings.run(order, kept.receive, kept.send, arrived_at=arrived_at)

    def _ours(self, job: NewJob) -> NewJob:
        """The job as a line's: behind all people's, in its sender's turn, and for as long as its batch waits."""
        whose = self._whose
        left_s = max(1.0, self._until_at - time.time())
        return structs.replace(
            job,
            lane="background",
            user=whose.user,
            owner=whose.owner,
            share=whose.share,
            timeout_us=round(left_s * 1e6),
        )

    async def _model(self, name: str, unknown: Any) -> Model:
        model = await self._parts.catalog.resolve(name)
        if model is None:
            raise Refusal(unknown(name))
        return model

    def _call(self, request_id: str) -> Call:
        kind, _, name = self._whose.owner.partition(":")
        return Call(
            method="POST",
            path=self._endpoint,
            headers={b"x-doublebuffer-lane": b"background"},
            request_id=request_id,
            key=name if kind == "key" else "",
            trusted=False,
            key_lanes=frozenset(),
            address=name if kind == "address" else "",
            share=self._whose.share,
        )

"""``POST /v1/embeddings``, ``POST /api/embed`` and ``POST /api/embeddings``."""

from __future__ import annotations

import time
from functools import partial

from buffer.embed import Embed
from buffer.job import Failure
from buffer.telemetry import Outcome
from gateway.body import read_body
from gateway.call import JSON, Receive, Scope, Send, answer, call_of
from gateway.dialects import embeddings as dialect
from gateway.dialects import openai
from gateway.dialects.errors import BadRequest, headers
from gateway.embedding import EmbedForm
from gateway.models import Model
from gateway.refusal import ClientLeft, Refusal
from gateway.routes.chat import LARGE_BYTES, STOPPING, beside
from gateway.services import Services

OPENAI_EMBEDDINGS = EmbedForm("openai", dialect.parse_openai, dialect.openai_answer, openai.error, openai.unknown_model)
OLLAMA_EMBED = EmbedForm(
    "ollama", dialect.parse_ollama, dialect.ollama_answer, dialect.ollama_error, dialect.ollama_unknown_model
)
OLLAMA_EMBEDDINGS = EmbedForm(
    "ollama",
    dialect.parse_ollama_older,
    dialect.ollama_older_answer,
    dialect.ollama_error,
    dialect.ollama_unknown_model,
)


class EmbedRoute:
    """Embeddings of one form, as an ASGI application."""

    def __init__(self, form: EmbedForm, services: Services) -> None:
        self._form = form
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_at = time.perf_counter()
        call, services = call_of(scope), self._services
        failure: Failure | None = None
        outcome: Outcome = "client_error"
        try:
            if services.ended.is_set():
                raise Refusal(STOPPING, "refused")
            body = await read_body(call, receive, services.settings.max_body_bytes)
            asked = await beside(len(body) > LARGE_BYTES, partial(self._form.parse, body))
            del body
            model = await self._model(asked.embed)
            order = services.embeddings.order(asked, self._form, model, services.embedding_pools[model.pool], call)
            outcome = await services.embeddings.run(order, receive, send, arrived_at=arrived_at)
        except BadRequest as error:
            failure = error.failure
        except Refusal as refusal:
            failure, outcome = refusal.failure, refusal.outcome
        except ClientLeft:
            outcome = "cancelled"
        if failure is not None:
            await answer(send, failure.status, JSON, self._form.error(failure), headers(failure))
        services.telemetry.request_ended(self._form.api, "none", outcome)
        if call.span is not None:
            call.span.ended("none", outcome)

    async def _model(self, embed: Embed) -> Model:
        model = await self._services.catalog.resolve(embed.model)
        if model is None:
            raise Refusal(self._form.unknown_model(embed.model))
        return model

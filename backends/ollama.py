"""Ollama, by its own API: its OpenAI routes lose sampling defaults, swallow errors and know no thinking levels."""

from __future__ import annotations

from functools import partial

import msgspec

from backends.answer import Answer
from backends.base import Probe
from backends.client import Client
from backends.exchange import Patience, Stream, exchange, guarded, side_by_side
from backends.openai import new_call_id, single
from backends.probe_ollama import Shown, probe
from backends.read_ollama import OllamaReader
from backends.render_ollama import render_ollama
from backends.thinking import plan
from buffer.backend import BackendSpec
from buffer.job import Chat


class OllamaBackend:
    def __init__(self, spec: BackendSpec, *, connect_timeout_s: float, patience: Patience) -> None:
        self.spec = spec
        self._client = Client(spec, connect_timeout_s=connect_timeout_s)
        self._patience = patience
        self._shown: dict[str, Shown] = {}
        """What was told of a model, by its digest."""
        self._plain: set[str] = set()
        """Models that cannot think, by what the server tells of them."""

    def chat(self, chat: Chat, *, upstream_model: str, request_id: str) -> Stream:
        """See ``backends.base.Backend``. Ollama knows no request ids."""
        del request_id
        return guarded(chat, partial(self._attempt, upstream_model))

    async def probe(self) -> Probe:
        found = await probe(self._client, self._shown)
        told = (model for model in found.models if model.capabilities)
        self._plain = {model.id for model in told if "thinking" not in model.capabilities}
        return found

    async def aclose(self) -> None:
        await self._client.aclose()

    def _attempt(self, upstream_model: str, chat: Chat) -> Stream:
        if chat.n == 1:
            return self._answer(chat, upstream_model)
        return side_by_side([self._answer(one, upstream_model) for one in single(chat)])

    async def _answer(self, chat: Chat, upstream_model: str) -> Stream:
        chosen = plan(chat, upstream_model, "ollama")
        rendered = render_ollama(
            chat, upstream_model, chosen, num_ctx=self.spec.num_ctx, can_think=upstream_model not in self._plain
        )
        body = msgspec.json.encode(rendered)
        answer = Answer(
            0,
            mode=chosen.mode,
            splitter=chosen.splitter(),
            new_id=new_call_id,
            one_call=chat.parallel_tool_calls is False,
        )
        reader = OllamaReader(self.spec.name, answer)
        stream = exchange(self._client, "/api/chat", body, reader, headers={}, patience=self._patience)
        try:
            async for events in stream:
                yield events
        finally:
            await stream.aclose()

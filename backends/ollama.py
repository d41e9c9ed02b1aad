"""Ollama, by its own API: its OpenAI routes lose sampling defaults, swallow errors and know no thinking levels."""

from __future__ import annotations

from functools import partial

import msgspec

from backends.answer import Answer
from backends.base import NOTHING_SAID, Beginning, Embedded, Probe, Stream
from backends.client import Client
from backends.embed import Embedder
from backends.exchange import Patience, exchange
from backends.going_on import go_on
from backends.guarded import Guarded
from backends.openai import new_call_id, single
from backends.probe_ollama import Shown, probe
from backends.read_ollama import OllamaReader
from backends.render_ollama import render_ollama
from backends.render_text import echoes, render_generate
from backends.several import echoed, later, one_by_one
from backends.stops import all_stops
from backends.thinking import literal, plan
from buffer.backend import BackendSpec
from buffer.embed import Embed
from buffer.heard import Said
from buffer.job import Chat
from buffer.model_records import Families


class OllamaBackend:
    def __init__(self, spec: BackendSpec, *, connect_timeout_s: float, patience: Patience, families: Families) -> None:
        self.spec = spec
        self._families = families
        self._client = Client(spec, connect_timeout_s=connect_timeout_s)
        self._patience = patience
        self._embedder = Embedder(self._client, "ollama", answer_s=patience.first_s, num_ctx=spec.num_ctx)
        self._shown: dict[str, Shown] = {}
        """What was told of a model, by its digest."""
        self._plain: set[str] = set()
        """Models that cannot think, by what the server tells of them."""

    continues = True
    splits = False

    async def beginning(self, chat: Chat, *, upstream_model: str) -> None:
        """Which of its slots answers, Ollama lets nobody choose."""

    def chat(
        self,
        chat: Chat,
        *,
        upstream_model: str,
        request_id: str,
        said: Said = NOTHING_SAID,
        spent: int = 0,
        beginning: Beginning | None = None,
    ) -> Stream:
        """See ``backends.base.Backend``. Ollama knows no request ids."""
        del request_id, beginning
        if not said:
            return Guarded(chat, partial(self._attempt, upstream_model, ""))
        return go_on(chat, said, spent, partial(self._attempt, upstream_model, said.text))

    async def embed(self, embed: Embed, *, upstream_model: str) -> Embedded:
        """See ``backends.base.Backend``."""
        return await self._embedder.embed(embed, upstream_model)

    async def probe(self) -> Probe:
        found = await probe(self._client, self._shown)
        told = (model for model in found.models if model.capabilities)
        self._plain = {model.id for model in told if "thinking" not in model.capabilities}
        return found

    async def aclose(self) -> None:
        await self._client.aclose()

    def _attempt(self, upstream_model: str, after: str, chat: Chat) -> Stream:
        if chat.n == 1:
            streams = [self._answer(upstream_model, after, chat)]
        else:
            streams = [later(partial(self._answer, upstream_model, after, one)) for one in single(chat)]
        if echoes(chat):
            streams = [echoed(stream, chat.prompt or "") for stream in streams]
        return streams[0] if chat.n == 1 else one_by_one(streams)

    def _answer(self, upstream_model: str, after: str, chat: Chat) -> Stream:
        num_ctx, mute = self.spec.num_ctx, False
        if chat.prompt is None:
            path, chosen = "/api/chat", plan(chat, upstream_model, "ollama", families=self._families)
            can_think = upstream_model not in self._plain
            rendered = render_ollama(chat, upstream_model, chosen, num_ctx=num_ctx, can_think=can_think)
        else:
            path, chosen = "/api/generate", literal(chat)
            rendered, mute = render_generate(chat, upstream_model, num_ctx=num_ctx)
        body = msgspec.json.encode(rendered)
        answer = Answer(
            0,
            mode=chosen.mode,
            splitter=chosen.splitter(),
            new_id=new_call_id,
            stops=all_stops(chat) if after else (),
            one_call=chat.parallel_tool_calls is False,
            mute=mute,
            after=after,
        )
        reader = OllamaReader(self.spec.name, answer)
        return exchange(self._client, path, body, reader, headers={}, patience=self._patience)

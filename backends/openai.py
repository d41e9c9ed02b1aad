"""vLLM, llama.cpp's server, and whatever else speaks OpenAI's chat completions and completions."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
from collections.abc import Mapping
from functools import partial

import msgspec

from backends.answer import Answer
from backends.base import NOTHING_SAID, Beginning, Embedded, Probe, Stream
from backends.beginning import Beginnings, Remembered
from backends.chunk import decode_chunk
from backends.client import Client
from backends.embed import Embedder
from backends.exchange import Patience, exchange
from backends.going_on import go_on
from backends.guarded import Guarded
from backends.manners import Manners
from backends.native import decode_native
from backends.probe_openai import probe
from backends.read_openai import CompletionReader
from backends.render_openai import Rendered, filled, worded
from backends.render_text import INFILL, echoes, render_text
from backends.several import echoed, later, one_by_one
from backends.stops import all_stops
from backends.thinking import Plan, literal, plan
from buffer.backend import BackendSpec
from buffer.embed import Embed
from buffer.heard import Said
from buffer.job import Chat
from buffer.model_records import Families

log = logging.getLogger("doublebuffer.backends")

_PATH = "/v1/chat/completions"
_ANYWHERE: Mapping[str, int] = {}
_requests = itertools.count(secrets.randbits(32))
"""Begun anywhere: two workers may have the same job, one after the other."""
_NOT_IN_IDS = re.compile(r"[^\w.\-]")


class OpenAIBackend:
    def __init__(self, spec: BackendSpec, *, connect_timeout_s: float, patience: Patience, families: Families) -> None:
        self.spec = spec
        self._families = families
        self._manners = Manners(spec.kind, families)
        self._client = Client(spec, connect_timeout_s=connect_timeout_s)
        self._patience = patience
        self._beginnings = Beginnings(self._client, spec.kind, patience)
        self._embedder = Embedder(self._client, spec.kind, answer_s=patience.first_s)
        self._contexts: dict[str, int] = {}
        self._parses: set[str] = set()
        """Models for which the engine has been seen to tell thinking from answer by itself."""
        self._greedy: set[str] = set()
        """Models that were asked for what their makers warn of."""

    @property
    def continues(self) -> bool:
        """See ``backends.base.Backend``. Of an unknown server nobody knows what it makes of an answer's beginning."""
        return self.spec.kind != "openai"

    @property
    def splits(self) -> bool:
        """See ``backends.base.Backend``."""
        return self._beginnings.able

    async def beginning(self, chat: Chat, *, upstream_model: str) -> Remembered | None:
        """See ``backends.base.Backend``."""
        if not self.splits or chat.n != 1:
            return None
        _, rendered, chosen = self._rendered(chat, upstream_model)
        if self.spec.kind == "vllm" and chosen.family.switch == "effort":
            # vLLM puts these models' chats into words without a template, and tells other tokens than it reads.
            return None
        return await self._beginnings.of(rendered.fields, self._contexts.get(upstream_model, 0))

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
        """See ``backends.base.Backend``."""
        begun = beginning if isinstance(beginning, Remembered) else None
        attempt = partial(self._attempt, upstream_model, request_id, said.text, begun)
        if not said:
            return Guarded(chat, attempt) if begun is None else begun.noted(Guarded(chat, attempt))
        return go_on(self._as_begun(chat, upstream_model), said, spent, attempt)

    def _as_begun(self, chat: Chat, upstream_model: str) -> Chat:
        """The sampling of a model's thinking mode holds for the whole answer, also where its rest is asked for without
        thinking."""
        if chat.prompt is not None:
            return chat
        chosen = plan(chat, upstream_model, self.spec.kind, families=self._families)
        sampling = filled(chat.sampling, chosen.family.profile(chosen.think))
        return msgspec.structs.replace(chat, sampling=sampling)

    async def embed(self, embed: Embed, *, upstream_model: str) -> Embedded:
        """See ``backends.base.Backend``."""
        return await self._embedder.embed(embed, upstream_model)

    async def probe(self) -> Probe:
        found = await probe(self._client, self.spec.kind)
        self._beginnings.looked(prefix_caching=found.prefix_caching, slots=found.slots)
        self._contexts = {model.id: model.context_length for model in found.models}
        # So that names that come and go cannot pile up.
        self._parses &= self._contexts.keys()
        self._greedy &= self._contexts.keys()
        return found

    async def aclose(self) -> None:
        await self._client.aclose()

    def _attempt(
        self, upstream_model: str, request_id: str, after: str, begun: Remembered | None, chat: Chat
    ) -> Stream:
        if self.spec.kind != "llamacpp":
            return self._answers(upstream_model, request_id, after, _ANYWHERE, chat)
        answers = partial(self._answers, upstream_model, request_id, after, {} if begun is None else begun.place)
        # llama.cpp refuses more answers than it has slots, and mixes up what they share.
        streams = [answers(chat)] if chat.n == 1 else [later(partial(answers, one)) for one in single(chat)]
        if echoes(chat):
            # It takes no notice of the wish.
            streams = [echoed(stream, chat.prompt or "") for stream in streams]
        return streams[0] if chat.n == 1 else one_by_one(streams)

    def _rendered(self, chat: Chat, upstream_model: str) -> tuple[str, Rendered, Plan]:
        """The path that a job goes to, and what is sent there. Raises ``BackendError``."""
        kind, context = self.spec.kind, self._contexts.get(upstream_model, 0)
        if chat.prompt is not None:
            return *render_text(chat, kind, upstream_model, context=context), literal(chat)
        chosen, how = self._manners.of(chat, upstream_model, parses=upstream_model in self._parses, context=context)
        return _PATH, worded(chat, kind, upstream_model, chosen, how), chosen

    def _answers(
        self, upstream_model: str, request_id: str, after: str, place: Mapping[str, int], chat: Chat
    ) -> Stream:
        """``after``: words of the answer that came before. ``place``: fields that name the engine's slot."""
        path, rendered, chosen = self._rendered(chat, upstream_model)
        if chat.prompt is None:
            self._look_at_temperature(chat, upstream_model, chosen)
        decode = decode_native if path == INFILL else decode_chunk
        reader = CompletionReader(self.spec.name, _new_answers(chat, chosen, rendered, after), decode)
        body = rendered.body(place)
        # vLLM makes it the request's name, and names of requests under way must not meet again.
        name = request_id if request_id.isalnum() else _NOT_IN_IDS.sub("-", request_id)
        headers = {"X-Request-Id": f"{name[:64]}-{next(_requests) % 2**32:08x}"}

        def note() -> None:
            if reader.parsed:
                self._parses.add(upstream_model)

        return exchange(self._client, path, body, reader, headers=headers, patience=self._patience, at_end=note)

    def _look_at_temperature(self, chat: Chat, upstream_model: str, chosen: Plan) -> None:
        """What a client asks for is done; but its operator should know why such answers never end."""
        if chat.sampling.temperature != 0 or upstream_model in self._greedy:
            return
        if "thinking" in chosen.family.profiles and chosen.family.will_think(chosen.think):
            self._greedy.add(upstream_model)
            log.info(
                "back end %s: %s is asked to think at temperature 0, where it tends to repeat itself without end",
                self.spec.name,
                upstream_model,
            )


def single(chat: Chat) -> list[Chat]:
    """A job for ``n`` answers as ``n`` jobs for one, each with a seed of its own if there is one."""
    seed = chat.sampling.seed
    alone = []
    for index in range(chat.n):
        sampling = chat.sampling if seed is None else msgspec.structs.replace(chat.sampling, seed=seed + index)
        alone.append(msgspec.structs.replace(chat, n=1, sampling=sampling))
    return alone


def new_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _new_answers(chat: Chat, chosen: Plan, rendered: Rendered, after: str) -> list[Answer]:
    return [
        Answer(
            index,
            mode=chosen.mode,
            splitter=chosen.splitter(),
            new_id=new_call_id,
            stops=(after and all_stops(chat)) or rendered.stops,
            one_call=chat.parallel_tool_calls is False,
            mute=rendered.mute,
            after=after,
        )
        for index in range(chat.n)
    ]

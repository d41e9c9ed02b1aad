"""Prompts read a part at a time, by engines that remember what they have read: their tokens, and how a part is sent.

The tokens are those of the request that follows, as the engine itself makes them, so that this one finds them read.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from backends.base import NO_MODEL, BackendError, Stream
from backends.client import Client, decode_json
from backends.exchange import Patience
from backends.failures import early_end
from backends.part import check, part_of
from backends.telling import idle_slots, vllm_question
from buffer.backend import Kind
from buffer.job import Usage
from buffer.tracing import headers_of_attempt

log = logging.getLogger("doublebuffer.backends")

TOKENS_S = 10.0
"""How long an engine may take to tell a prompt's tokens. After that the prompt goes whole."""
MOST_FORGOTTEN = 3
"""Prompts in a row whose beginning an engine was not found to remember, after which no more is read in parts there,"""
AGAIN_S = 600.0
"""for so long. It may just have been full."""
NO_PATH = frozenset({404, 405})

_CHANGING: Mapping[str, Any] = {
    "truncate_prompt_tokens": None, "use_beam_search": None, "echo": None, "suffix": None, "cache_prompt": True
}  # fmt: skip
"""Fields with which a prompt is not read as it is, or not remembered; and the value that is none."""


class Beginnings:
    """Of one back end that may remember prompts."""

    def __init__(self, client: Client, kind: Kind, patience: Patience) -> None:
        self.client = client
        self.kind = kind
        self.patience = patience
        self._remembers = False
        self._missing = False
        """It does not tell tokens, at least till the next look."""
        self.cuts = False
        """It was seen to answer where prompt and ``max_tokens`` go beyond its context. Older ones refuse that."""
        self._forgotten = 0
        self._forgotten_at = 0.0
        self._slots = 0
        self._held: set[int] = set()

    @property
    def able(self) -> bool:
        return self._remembers and not self._missing and self._forgotten < MOST_FORGOTTEN

    def looked(self, *, prefix_caching: bool | None, slots: int | None) -> None:
        """What a look at the back end found."""
        self._slots = slots or 0
        # With a single slot, whatever came between two parts would take the first one's place.
        self._remembers = self._slots > 1 if self.kind == "llamacpp" else self.kind == "vllm" and bool(prefix_caching)
        self._missing = False
        if self._forgotten >= MOST_FORGOTTEN and asyncio.get_running_loop().time() >= self._forgotten_at + AGAIN_S:
            self._forgotten = MOST_FORGOTTEN - 1

    async def of(self, fields: Mapping[str, Any], context: int) -> Remembered | None:
        """The beginning of a request with these ``fields``. None: it goes whole. ``context``: tokens that prompt and
        answer may have together, 0 if not told.
        """
        if not self.able or any(name in fields and fields[name] != none for name, none in _CHANGING.items()):
            return None
        try:
            async with asyncio.timeout(TOKENS_S):
                tokens = await self._tokens(fields)
                if not tokens or (context and len(tokens) >= context):
                    return None
                slot = await self._slot() if self.kind == "llamacpp" else None
        except TimeoutError:
            log.info("back end %s does not tell a prompt's tokens in time; it goes whole", self.client.name)
            # Each of these costs somebody the whole time: two of them are enough.
            self._failed(max(self._forgotten + 1, MOST_FORGOTTEN - 1), "does not tell a prompt's tokens in time")
            return None
        except BackendError as error:
            if error.status in NO_PATH and error.code != NO_MODEL:
                self._missing = True
            log.info("back end %s does not tell a prompt's tokens; it goes whole", self.client.name)
            return None
        if slot is None and self.kind == "llamacpp":
            return None
        return Remembered(self, fields, tokens, slot, beyond=self.kind == "vllm" and _beyond(fields, tokens, context))

    def freed(self, slot: int | None) -> None:
        if slot is not None:
            self._held.discard(slot)

    def found(self, read: int, cached: int) -> None:
        """Of a prompt of which ``read`` tokens had been read, the engine found ``cached``."""
        if cached >= read // 2:
            self._forgotten = 0
            return
        self._failed(self._forgotten + 1, "forgets what it has read of a prompt")

    def _failed(self, times: int, what: str) -> None:
        self._forgotten = times
        self._forgotten_at = asyncio.get_running_loop().time()
        if times == MOST_FORGOTTEN:
            log.warning("back end %s %s; long ones go to it whole for %g s", self.client.name, what, AGAIN_S)

    async def _tokens(self, fields: Mapping[str, Any]) -> list[int]:
        """Raises ``BackendError``."""
        prompt = fields.get("prompt")
        if isinstance(prompt, list):
            return prompt
        if self.kind == "vllm":
            told = await self._ask("/tokenize", vllm_question(fields))
        else:
            if prompt is None:
                prompt = (await self._ask("/apply-template", fields)).get("prompt")
            question = {"model": fields["model"], "content": prompt, "add_special": True, "parse_special": True}
            told = await self._ask("/tokenize", question)
        tokens = told.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise early_end(self.client.name, "told a prompt's tokens in another form")
        return tokens

    async def _ask(self, path: str, question: Mapping[str, Any]) -> dict[str, Any]:
        body = msgspec.json.encode(question)
        told = decode_json(self.client.name, await self.whole(path, body, first_s=TOKENS_S))
        if not isinstance(told, dict):
            raise early_end(self.client.name, "told a prompt's tokens in another form")
        return told

    async def whole(self, path: str, body: bytes, *, first_s: float, headers: Mapping[str, str] | None = None) -> bytes:
        """The whole body of an answer. Raises ``BackendError``."""
        until_at = asyncio.get_running_loop().time() + first_s
        answer = bytearray()
        async with self.client.post(path, body, headers or {}, until_at=until_at) as response:
            while (data := await self.client.next(response, until_at)) is not None:
                answer += data
        return bytes(answer)

    async def _slot(self) -> int | None:
        """A slot that is this beginning's own from now on. The last one that is free: a request that names none gets
        the first of those that suit it as well. Raises ``BackendError``.
        """
        told = await self.client.look("/slots")
        free = idle_slots(decode_json(self.client.name, told.content)) if told is not None else range(self._slots)
        slot = max((one for one in free if one not in self._held), default=None)
        if slot is not None:
            self._held.add(slot)
        return slot


class Remembered:
    """See ``backends.base.Beginning``."""

    def __init__(
        self, home: Beginnings, fields: Mapping[str, Any], tokens: list[int], slot: int | None, *, beyond: bool
    ) -> None:
        self._home = home
        self._beyond = beyond
        """Prompt and answer may go beyond the context."""
        self._fields = fields
        self._tokens = tokens
        self._slot = slot
        self._read = 0

    @property
    def tokens(self) -> int:
        return len(self._tokens)

    @property
    def at_once(self) -> int:
        """A slot of llama.cpp's begins with the next part in the very step that gives others the room that the last
        one has left."""
        return 2 if self._slot is None else 1

    @property
    def tries(self) -> bool:
        """An engine that refuses it does so before it reads a word of it, and in its own words."""
        return self._beyond and not self._home.cuts

    @property
    def place(self) -> dict[str, int]:
        """What leads a request to where the engine remembers."""
        return {} if self._slot is None else {"id_slot": self._slot}

    async def read(self, upto: int) -> None:
        upto = min(upto, self.tokens)
        home = self._home
        path, part = part_of(home.kind, self._fields, self._tokens[:upto], self.place)
        headers = {"X-Request-Id": f"part-{secrets.token_hex(8)}", **headers_of_attempt()}
        body = msgspec.json.encode(part)
        check(home.client, await home.whole(path, body, first_s=home.patience.first_s, headers=headers))
        self._read = max(self._read, upto)

    def close(self) -> None:
        self._home.freed(self._slot)

    async def noted(self, stream: Stream) -> Stream:
        """The answer's events; from the counts among them it is seen whether the engine remembered."""
        async with aclosing(stream):
            async for events in self._tried(stream) if self._beyond else stream:
                for event in events:
                    if isinstance(event, Usage) and event.cached is not None and self._read:
                        self._home.found(self._read, event.cached)
                        self._read = 0
                yield events

    async def _tried(self, stream: Stream) -> Stream:
        try:
            async for events in stream:
                self._home.cuts = True
                yield events
        except BackendError as error:
            # It may be another version since.
            self._home.cuts = self._home.cuts and error.kind != "client"
            raise


def _beyond(fields: Mapping[str, Any], tokens: Sequence[int], context: int) -> bool:
    most = fields.get("max_tokens")
    return context > 0 and isinstance(most, int) and len(tokens) + most > context

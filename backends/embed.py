"""Embeddings of an engine: what is asked of it, and its vectors out of the answer.

One request asks for many inputs. Numbers come as base64 from engines that are known to speak it: reading a thousand
texts' worth of digits holds up every stream that this process serves.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from backends.base import BackendError, Embedded
from backends.client import Client
from backends.failures import ContextTooLongError, early_end
from backends.render_ollama import options_of
from buffer.backend import Kind
from buffer.embed import FLOAT_BYTES, Embed, Input, numbers, packed
from buffer.job import Chat, Usage

CUTS = 4
"""How often an input that is too long is cut and sent again."""
CUT_SPARE = 0.97
"""Of the share that fits, to be on the safe side: tokens are not spread evenly over a text."""
ANSWER_LIMIT = 512 * 1024 * 1024
"""Bytes of an answer; beyond this it is none."""

_BASE64: frozenset[Kind] = frozenset(("vllm", "llamacpp"))
_KNOWN: dict[Kind, frozenset[str]] = {
    "vllm": frozenset(
        ("truncate_prompt_tokens", "truncation_side", "add_special_tokens", "cache_salt", "normalize", "use_activation")
    ),
    "llamacpp": frozenset(("embd_normalize",)),
    "openai": frozenset(
        ("input_type", "task", "late_chunking", "prompt_name", "instruction", "normalize", "truncate_prompt_tokens")
    ),
}
_TOO_LARGE = re.compile(r"input \((\d+) tokens\) is too large to process.*batch size: (\d+)")
"""llama.cpp's complaint about an input of more tokens than it reads at once; it comes with status 500."""


class _Item(Struct):
    embedding: list[float] | str
    index: int | None = None


class _Usage(Struct):
    prompt_tokens: int = 0


class _Answer(Struct):
    data: list[_Item]
    usage: _Usage | None = None


class _OllamaAnswer(Struct):
    embeddings: list[list[float]]
    prompt_eval_count: int = 0
    total_duration: int = 0
    load_duration: int = 0


class _OllamaVector(Struct):
    embedding: list[float]


_answer = msgspec.json.Decoder(_Answer)
_ollama_answer = msgspec.json.Decoder(_OllamaAnswer)
_ollama_vector = msgspec.json.Decoder(_OllamaVector)


class Embedder:
    """Asks one back end. ``answer_s``: how long a whole answer may take. ``num_ctx``: the operator's, for Ollama."""

    def __init__(self, client: Client, kind: Kind, *, answer_s: float, num_ctx: int | None = None) -> None:
        self._client = client
        self._kind: Kind = kind
        self._answer_s = answer_s
        self._num_ctx = num_ctx

    async def embed(self, embed: Embed, model: str) -> Embedded:
        """The vectors of all inputs, as ``backends.base.Backend.embed`` has it.

        A single input that is too long is cut here, where that is wanted and the engine does not do it.
        """
        cuts = 0
        while True:
            try:
                return await self._attempt(embed, model)
            except ContextTooLongError as error:
                if len(embed.inputs) > 1 or embed.truncate is not True or cuts == CUTS:
                    raise
                cuts += 1
                embed = msgspec.structs.replace(embed, inputs=[_cut(embed.inputs[0], error.share)])

    async def _attempt(self, embed: Embed, model: str) -> Embedded:
        if self._kind != "ollama":
            body = await self._post("/v1/embeddings", openai_request(embed, model, self._kind))
            return _read(self._client.name, _from_openai, body, len(embed.inputs))
        texts = [text for text in embed.inputs if isinstance(text, str)]
        if len(texts) < len(embed.inputs):
            message = "This model's engine takes texts, not token ids."
            raise BackendError(message, kind="client", status=400, code="", param="input")
        if not embed.raw:
            body = await self._post("/api/embed", ollama_request(embed, model, texts, self._num_ctx))
            return _read(self._client.name, _from_ollama, body, len(texts))
        vectors = []
        for text in texts:
            # The older way is the only one that leaves vectors as they are, and it takes one text.
            body = await self._post("/api/embeddings", ollama_request(embed, model, text, self._num_ctx))
            vectors += _read(self._client.name, _from_ollama_older, body, 1).vectors
        return Embedded(vectors, Usage(0, 0))

    async def _post(self, path: str, request: Mapping[str, Any]) -> bytes:
        until_at = asyncio.get_running_loop().time() + self._answer_s
        whole = bytearray()
        try:
            async with self._client.post(path, msgspec.json.encode(request), {}, until_at=until_at) as response:
                while (data := await self._client.next(response, until_at)) is not None:
                    whole += data
                    if len(whole) > ANSWER_LIMIT:
                        raise early_end(self._client.name, "sent more than any embeddings can be")
        except ContextTooLongError as error:
            raise _too_long(error.message, error.share) from error
        except BackendError as error:
            if found := _TOO_LARGE.search(error.message):
                asked, limit = int(found[1]), int(found[2])
                message = f"The input has {asked} tokens; the engine reads {limit} at most."
                raise _too_long(message, limit / max(asked, 1)) from error
            raise
        return bytes(whole)


def openai_request(embed: Embed, model: str, kind: Kind) -> dict[str, Any]:
    """The body for an OpenAI-like engine."""
    known = _KNOWN.get(kind, frozenset())
    body: dict[str, Any] = {name: value for name, value in embed.extra.items() if name in known}
    body |= {"model": model, "input": embed.inputs, "encoding_format": "base64" if kind in _BASE64 else "float"}
    if embed.dimensions is not None and kind != "llamacpp":
        body["dimensions"] = embed.dimensions
    if kind == "vllm":
        if embed.truncate:
            body = {"truncate_prompt_tokens": -1, "truncation_side": "right"} | body
        if embed.raw:
            # Its newer and its older word for the same.
            body |= {"use_activation": False, "normalize": False}
    elif kind == "llamacpp" and embed.raw:
        body["embd_normalize"] = -1
    return body


def ollama_request(embed: Embed, model: str, asked: str | list[str], num_ctx: int | None) -> dict[str, Any]:
    """The body for Ollama: of its newer way for a list, of the older one for a text."""
    body: dict[str, Any] = {"model": model}
    if isinstance(asked, str):
        body["prompt"] = asked
    else:
        body["input"] = asked
        if embed.truncate is not None:
            body["truncate"] = embed.truncate
        if embed.dimensions is not None:
            body["dimensions"] = embed.dimensions
    if embed.keep_alive is not None:
        body["keep_alive"] = embed.keep_alive
    if options := options_of(Chat(model, [], options=embed.options), num_ctx):
        body["options"] = options
    return body


def _read(name: str, read: Any, body: bytes, count: int) -> Embedded:
    """Raises ``BackendError`` on anything but ``count`` vectors of one length."""
    try:
        found: Embedded = read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, OverflowError, ValueError, RecursionError):
        raise early_end(name, "sent embeddings that cannot be read") from None
    if len(found.vectors) != count or len({len(vector) for vector in found.vectors}) != 1 or not found.vectors[0]:
        raise early_end(name, "did not send one vector for each input")
    # Engines are known to answer some texts with vectors of no numbers.
    if not all(math.isfinite(sum(numbers(vector))) for vector in found.vectors):
        raise early_end(name, "sent embeddings that are no numbers")
    return found


def _from_openai(body: bytes) -> Embedded:
    answer = _answer.decode(body)
    vectors: dict[int, bytes] = {}
    for place, item in enumerate(answer.data):
        data = item.embedding
        vectors[place if item.index is None else item.index] = (
            packed(data) if isinstance(data, list) else _checked(base64.b64decode(data, validate=True))
        )
    tokens = answer.usage.prompt_tokens if answer.usage else 0
    return Embedded([vectors[index] for index in range(len(vectors)) if index in vectors], Usage(max(tokens, 0), 0))


def _from_ollama(body: bytes) -> Embedded:
    answer = _ollama_answer.decode(body)
    usage = Usage(max(answer.prompt_eval_count, 0), 0, load_ns=max(answer.load_duration, 0))
    usage.prompt_ns = max(answer.total_duration - answer.load_duration, 0)
    return Embedded([packed(vector) for vector in answer.embeddings], usage)


def _from_ollama_older(body: bytes) -> Embedded:
    return Embedded([packed(_ollama_vector.decode(body).embedding)], Usage(0, 0))


def _checked(data: bytes) -> bytes:
    if len(data) % FLOAT_BYTES:
        raise ValueError
    return data


def _cut(asked: Input, share: float) -> Input:
    """The beginning of an input, as much of it as fits."""
    return asked[: max(1, int(len(asked) * share * CUT_SPARE))]


def _too_long(message: str, share: float) -> ContextTooLongError:
    error = ContextTooLongError(message, share=share)
    error.param = "input"
    return error

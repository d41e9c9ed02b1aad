"""Embeddings that nobody trained: the same text gives the same vector, on both APIs and in Ollama's older form.

One pass over all inputs of a call takes what the profile's arithmetic takes for their tokens; calls do not hold up one
another, nor the chats.
"""

from __future__ import annotations

import asyncio
import base64
import math
import struct
import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Struct

from simulate.bodies import decode
from simulate.site import Site
from simulate.text import count_tokens
from simulate.wire import JSON, Exchange, HttpError

NUMBERS = 64
_HALF = NUMBERS * 2


class _Body(Struct):
    """``POST /v1/embeddings`` and ``POST /api/embed``."""

    model: str = ""
    input: str | list[str | int | list[int]] | None = None
    encoding_format: str = "float"
    dimensions: int | None = None
    truncate: bool | None = None


class _OlderBody(Struct):
    """``POST /api/embeddings``."""

    model: str = ""
    prompt: str = ""


def vector_of(text: str, dimensions: int | None = None) -> list[float]:
    """The text's vector, of length 1; only its first ``dimensions`` numbers, brought to length 1 again."""
    digest = b"".join(blake2b(text.encode("utf-8", "replace"), salt=bytes([part])).digest() for part in (1, 2))
    numbers = [number / 32768 for number in struct.unpack(f"<{NUMBERS}h", digest[:_HALF])][:dimensions]
    length = math.hypot(*numbers) or 1.0
    return [number / length for number in numbers]


async def openai(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError``."""
    body = decode(await exchange.body(), _Body, "vllm")
    if site.find(body.model) is None:
        raise HttpError(404, f"The model `{body.model}` does not exist.", kind="NotFoundError", param="model")
    texts = _texts(body.input)
    if not texts:
        raise HttpError(400, "input must not be empty", kind="BadRequestError", param="input")
    tokens = _tokens(site, body.input, texts, cut=body.truncate is True)
    await _work(site, tokens)
    data = [
        {"object": "embedding", "index": index, "embedding": _told(vector_of(text, body.dimensions), body)}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    await exchange.json({"object": "list", "model": body.model, "data": data, "usage": usage})


async def ollama(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError``."""
    began_at = time.perf_counter()
    body = decode(await exchange.body(), _Body, "ollama")
    _known(site, body.model)
    texts = [] if body.input == "" else _texts(body.input)
    tokens = _tokens(site, body.input, texts, cut=body.truncate is not False)
    if texts:
        await _work(site, tokens)
    took_ns = round((time.perf_counter() - began_at) * 1e9)
    vectors = [vector_of(text, body.dimensions) for text in texts]
    counts = {"total_duration": took_ns, "load_duration": 1, "prompt_eval_count": tokens}
    await exchange.json({"model": body.model, "embeddings": vectors, **counts}, content_type=JSON)


async def ollama_older(site: Site, exchange: Exchange) -> None:
    """Raises ``HttpError``."""
    body = decode(await exchange.body(), _OlderBody, "ollama")
    _known(site, body.model)
    if body.prompt:
        await _work(site, _tokens(site, body.prompt, [body.prompt], cut=True))
    await exchange.json({"embedding": vector_of(body.prompt) if body.prompt else []}, content_type=JSON)


def _known(site: Site, model: str) -> None:
    if not model:
        raise HttpError(400, "model is required")
    if site.find(model) is None:
        raise HttpError(404, f'model "{model}" not found, try pulling it first')


def _texts(asked: Any) -> list[str]:
    """Each input as a text; token ids by their numbers."""
    if asked is None:
        return []
    if isinstance(asked, str):
        return [asked]
    if asked and all(isinstance(one, int) for one in asked):
        return [_joined(asked)]
    if any(isinstance(one, int) for one in asked):
        raise HttpError(400, "invalid input type", kind="BadRequestError", param="input")
    return [one if isinstance(one, str) else _joined(one) for one in asked]


def _joined(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def _tokens(site: Site, asked: Any, texts: Sequence[str], *, cut: bool) -> int:
    """Of all inputs together; one that is too long is refused, or cut."""
    counts = [count_tokens(text) for text in texts]
    if isinstance(asked, list) and asked and not isinstance(asked[0], str):
        counts = [len(text.split()) for text in texts]
    longest = site.context_length
    if not cut and any(count > longest for count in counts):
        message = f"This model's maximum context length is {longest} tokens. However, your request has more."
        ollama_words = "the input length exceeds the context length"
        raise HttpError(400, ollama_words if site.kind == "ollama" else message, kind="BadRequestError", param="input")
    return sum(min(count, longest) for count in counts)


async def _work(site: Site, tokens: int) -> None:
    profile = site.profile
    await asyncio.sleep((profile.fixed_s + max(profile.base_s, tokens / profile.rate)) * site.driver.time_scale)


def _told(vector: list[float], body: _Body) -> list[float] | str:
    if body.encoding_format != "base64":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()

"""Embeddings as OpenAI's and Ollama's clients ask for them, and as they want them told."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from buffer.embed import FLOAT_BYTES, Embed, Input, numbers, packed
from buffer.job import Failure, Usage
from gateway.dialects import ollama
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, plain, read_fields, take, take_bool, take_object
from gateway.dialects.sampling import ENGINE_OPTIONS, carry, take_int, take_keep_alive
from gateway.dialects.text import dump, quote

MOST_INPUTS = 2048
"""Of one request in OpenAI's form, which has this bound itself."""
MOST_INPUTS_OLLAMA = 8192
_MOST_TOKEN = 2**31
_UNIT = 1e-4
"""A vector whose length is as near to 1 as this is left as it is."""
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode
_OURS = ("user", "stream", "priority", "request_id", "session_id", "metadata", "messages")
"""Fields that mean nothing here, or that reach into an engine past the queue."""
_TOO_LONG = "the input length exceeds the context length"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: what the engine is to do, and how its answer is to be told."""

    embed: Embed
    cut: int | None = None
    """Numbers to leave of each vector, which then has length 1 again."""
    base64: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """What an answer tells beside its vectors. Seconds are from the request's arrival."""

    usage: Usage
    total_s: float = 0.0
    queued_s: float = 0.0


def parse_openai(body: bytes) -> Asked:
    """``POST /v1/embeddings``. Raises ``BadRequest``."""
    fields = read_fields(body, "The request body is empty; a JSON object is expected.")
    name = take(fields, "model", _string, "a string")
    if not name:
        raise BadRequest("you must provide a model parameter", param="model")
    inputs = _openai_inputs(fields)
    form = take(fields, "encoding_format", _string, "a string") or "float"
    if form not in {"float", "base64"}:
        raise BadRequest("Invalid value for 'encoding_format': expected float or base64.", param="encoding_format")
    dimensions = take_int(fields, "dimensions")
    if dimensions is not None and dimensions < 1:
        raise BadRequest("Invalid value for 'dimensions': expected at least 1.", param="dimensions")
    options = take_object(fields, "options")
    for option in ENGINE_OPTIONS:
        if option in fields:
            options.setdefault(option, fields.pop(option))
    embed = Embed(name, inputs, truncate=take_bool(fields, "truncate"), dimensions=dimensions)
    embed.keep_alive = take_keep_alive(fields)
    embed.options = carry(options, "options.")
    for name in _OURS:
        fields.pop(name, None)
    embed.extra = carry(fields)
    return Asked(embed, dimensions, form == "base64")


def _openai_inputs(fields: Fields) -> list[Input]:
    raw = fields.pop("input", None)
    if raw is None:
        raise BadRequest("Missing required parameter: 'input'.", param="input")
    value = plain(raw, "input")
    if isinstance(value, str) or _is_tokens(value):
        value = [value]
    if not isinstance(value, list) or not (all(isinstance(one, str) for one in value) or all(map(_is_tokens, value))):
        raise BadRequest(
            "Invalid value for 'input': expected a string, an array of strings, or token ids.", param="input"
        )
    if not value or not all(value):
        raise BadRequest("invalid input: 'input' cannot be empty.", param="input")
    if len(value) > MOST_INPUTS:
        raise BadRequest(f"Invalid value for 'input': expected at most {MOST_INPUTS} inputs.", param="input")
    return value


def _is_tokens(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < _MOST_TOKEN for one in value)
    )


def parse_ollama(body: bytes) -> Asked:
    """``POST /api/embed``. Raises ``BadRequest``."""
    fields = read_fields(body, ollama.NO_BODY)
    name = ollama.take_name(fields)
    raw = fields.pop("input", None)
    value = [] if raw is None else plain(raw, "input")
    if isinstance(value, str):
        value = [value] if value else []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadRequest("invalid input type", param="input")
    if len(value) > MOST_INPUTS_OLLAMA:
        raise BadRequest(f"too many inputs: at most {MOST_INPUTS_OLLAMA} in one request", param="input")
    embed = Embed(name, value, truncate=take_bool(fields, "truncate") is not False)
    _lifetime(embed, fields)
    dimensions = take_int(fields, "dimensions")
    return Asked(embed, dimensions if dimensions and dimensions > 0 else None)


def parse_ollama_older(body: bytes) -> Asked:
    """``POST /api/embeddings``. Raises ``BadRequest``."""
    fields = read_fields(body, ollama.NO_BODY)
    name = ollama.take_name(fields)
    prompt = take(fields, "prompt", _string, "a string")
    embed = Embed(name, [prompt] if prompt else [], truncate=True, raw=True)
    _lifetime(embed, fields)
    return Asked(embed)


def _lifetime(embed: Embed, fields: Fields) -> None:
    embed.options = carry(take_object(fields, "options"), "options.")
    embed.keep_alive = take_keep_alive(fields)


def openai_answer(asked: Asked, vectors: Sequence[bytes], figures: Figures) -> bytes:
    tokens = figures.usage.prompt
    told = []
    for index, vector in enumerate(vectors):
        left = shortened(vector, asked.cut)
        text = b'"%b"' % base64.b64encode(left) if asked.base64 else _list(left)
        told.append(b'{"object":"embedding","index":%d,"embedding":%b}' % (index, text))
    return b'{"object":"list","data":[%b],"model":%b,"usage":{"prompt_tokens":%d,"total_tokens":%d}}' % (
        b",".join(told),
        quote(asked.embed.model),
        tokens,
        tokens,
    )


def ollama_answer(asked: Asked, vectors: Sequence[bytes], figures: Figures) -> bytes:
    """Vectors of length 1, as Ollama's are whatever the model gives."""
    told = b",".join(_list(unit(shortened(vector, asked.cut))) for vector in vectors)
    counts = {
        "total_duration": round(figures.total_s * 1e9),
        "load_duration": round(figures.queued_s * 1e9) + (figures.usage.load_ns or 0),
        "prompt_eval_count": figures.usage.prompt,
    }
    more = dump({name: value for name, value in counts.items() if value})[1:-1]
    return b'{"model":%b,"embeddings":[%b]%b%b}' % (quote(asked.embed.model), told, b"," if more else b"", more)


def ollama_older_answer(asked: Asked, vectors: Sequence[bytes], figures: Figures) -> bytes:
    """The one vector, as the model gives it."""
    return b'{"embedding":%b}' % (_list(vectors[0]) if vectors else b"[]")


def shortened(vector: bytes, most: int | None) -> bytes:
    """At most so many numbers of a vector; if some had to go, the rest has length 1 again."""
    if most is None or len(vector) <= most * FLOAT_BYTES:
        return vector
    return unit(vector[: most * FLOAT_BYTES])


def unit(vector: bytes) -> bytes:
    """The vector at length 1; one of nothing but zeros stays as it is."""
    values = numbers(vector)
    length = math.hypot(*values)
    if length == 0 or abs(length - 1) < _UNIT:
        return vector
    return packed(value / length for value in values)


def _list(vector: bytes) -> bytes:
    return _encode(numbers(vector).tolist())


def ollama_unknown_model(name: str) -> Failure:
    return Failure(f'model "{name}" not found, try pulling it first', 404, "model_not_found", "model")


def ollama_error(failure: Failure) -> bytes:
    """As for chats, but that Ollama has words of its own for an input that is too long."""
    if failure.code == "context_length_exceeded":
        return b'{"error":"%b"}' % _TOO_LONG.encode()
    return ollama.error(failure)

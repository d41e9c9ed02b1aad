"""What nearly all of OpenAI's chat bodies are made of, read in one go."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from buffer.job import Chat, Sampling
from gateway.dialects.messages import OpenAIMessage, openai_messages

_Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _StreamOptions(Struct, gc=False):
    include_usage: bool | None = None


class _Plain(Struct, forbid_unknown_fields=True, gc=False):
    model: str
    messages: list[OpenAIMessage]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: _Int | None = None
    max_completion_tokens: _Int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: _Int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


_plain = msgspec.json.Decoder(_Plain)


def parse_plain(body: bytes, *, allow_links: bool) -> Chat | None:
    """The chat that ``body`` asks for. None: it has more in it, or something is wrong with it: to be looked at closely.
    Raises ``BadRequest`` where that is so of a message alone.
    """
    try:
        if not body.isascii():
            body.decode()
        asked = _plain.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    most = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
    if not asked.model or not asked.messages or (most is not None and most < 1):
        return None
    usage = asked.stream_options is not None and asked.stream_options.include_usage
    return Chat(
        asked.model,
        openai_messages(asked.messages, allow_links=allow_links),
        stream=bool(asked.stream),
        sampling=Sampling(
            temperature=asked.temperature,
            top_p=asked.top_p,
            presence_penalty=asked.presence_penalty,
            frequency_penalty=asked.frequency_penalty,
            seed=asked.seed,
        ),
        max_tokens=most,
        include_usage=bool(usage and asked.stream),
    )

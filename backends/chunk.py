"""Pure: the form of a chat completion's chunk, as far as it is read. Missing or odd fields do no harm."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

_MOST = 2**53
_LONE_SURROGATE = re.compile(r"\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2})\\ud[c-f][0-9a-f]{2}", re.I)


NOTHING = Raw(b"null")
"""Of a field that may be left out. msgspec takes nothing raw in a union with None."""


class Function(Struct):
    name: str | None = None
    arguments: Any = None


class ToolCall(Struct):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(Struct):
    # Any: an engine's odd value in one of these must not cost the whole answer.
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[ToolCall] | None = None


class ChoiceLogprobs(Struct):
    content: Raw = NOTHING
    # Any: the older form, of completions; see ``token_logprobs``.
    tokens: Any = None
    token_logprobs: Any = None
    top_logprobs: Any = None


class Choice(Struct):
    index: int = 0
    delta: Delta | None = None
    message: Delta | None = None
    text: Any = None
    """Of a completion, which has neither of the two above."""
    logprobs: ChoiceLogprobs | None = None
    finish_reason: str | None = None


class PromptDetails(Struct):
    cached_tokens: int | None = None


class CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class Counts(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Timings(Struct):
    """llama.cpp's; milliseconds."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class Metrics(Struct):
    """vLLM's; milliseconds."""

    time_to_first_token_ms: float | None = None
    generation_time_ms: float | None = None


class Chunk(Struct):
    choices: list[Choice] | None = None
    usage: Counts | None = None
    timings: Timings | None = None
    metrics: Metrics | None = None
    system_fingerprint: str | None = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None


_decoder = msgspec.json.Decoder(Chunk)


def plain_words(chunk: Chunk) -> str:
    """The words of a chunk that has some for the first answer and nothing else, as nearly all have; else empty."""
    choices = chunk.choices
    if choices is None or len(choices) != 1 or chunk.usage is not None or chunk.timings is not None:
        return ""
    choice = choices[0]
    delta = choice.delta
    if (
        delta is None
        or choice.index != 0
        or choice.finish_reason
        or choice.logprobs is not None
        or choice.text is not None
    ):
        return ""
    if delta.reasoning or delta.reasoning_content or delta.tool_calls or chunk.error or chunk.object == "error":
        return ""
    return delta.content if type(delta.content) is str else ""


def decode_chunk(payload: bytes) -> Chunk | None:
    """None for what is no JSON object of this form."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # Engines that cut a token in the middle of a character have been seen to send half of it.
    text = _LONE_SURROGATE.sub(r"\\ufffd", payload.decode("utf-8", "replace"))
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def plausible(told: float | None) -> int | None:
    """A count or a time as an engine tells it, within what the store and traces can hold."""
    return None if told is None else round(min(max(told, 0), _MOST))

"""Pure: llama.cpp's own form of an answer, which its ``/infill`` gives, as a chunk of OpenAI's form."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from backends.chunk import NOTHING, Choice, ChoiceLogprobs, Chunk, Counts, Timings


class _Native(Struct):
    index: int = 0
    content: str = ""
    stop: bool = False
    stop_type: str = ""
    tokens_evaluated: int | None = None
    tokens_predicted: int | None = None
    completion_probabilities: Raw = NOTHING
    timings: Timings | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Native)


def decode_native(payload: bytes) -> Chunk | None:
    """None for what is no JSON object of this form."""
    try:
        told = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if told.error:
        return Chunk(error=told.error)
    choice = Choice(told.index, text=told.content, logprobs=ChoiceLogprobs(told.completion_probabilities))
    if not told.stop:
        return Chunk([choice])
    choice.finish_reason = "length" if told.stop_type == "limit" else "stop"
    counts = Counts(told.tokens_evaluated, told.tokens_predicted)
    return Chunk([choice], counts, told.timings)

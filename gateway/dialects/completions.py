"""OpenAI's completions: text that goes on from a literal prompt, or from each of several."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from buffer.job import Chat, Sampling
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, list_items, object_fields, plain, read_fields, take, take_bool, take_object
from gateway.dialects.formats import take_openai_format
from gateway.dialects.openai import MOST_ANSWERS, OURS
from gateway.dialects.sampling import (
    ENGINE_OPTIONS,
    carry,
    take_int,
    take_keep_alive,
    take_num_predict,
    take_sampling,
    take_stop,
)

MOST_PROMPTS = 256
MOST_LOGPROBS = 20
_T = TypeVar("_T")
_string = msgspec.json.Decoder(str)
_token_ids = msgspec.json.Decoder(list[int])
_PROMPT = "a string, an array of strings, an array of token ids, or an array of such arrays"
_OF_CHATS = (
    "messages", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "reasoning", "think", "mode",
)  # fmt: skip


def parse(body: bytes, *, allow_image_urls: bool = False) -> list[Chat]:
    """What ``body`` asks for, a chat for each prompt in their order. Raises ``BadRequest`` and nothing else.

    ``echo`` stays in ``extra``. What only chats have is dropped, as servers do.
    """
    del allow_image_urls  # it has no images
    fields = read_fields(body, "The request body is empty; a JSON object is expected.")
    options = take_object(fields, "options")
    name = take(fields, "model", _string, "a string")
    if not name:
        raise BadRequest("you must provide a model parameter", param="model")
    if "prompt" not in fields:
        raise BadRequest("Missing required parameter: 'prompt'.", param="prompt")
    prompts = _prompts(fields.pop("prompt"))
    chat = Chat(name, [], "openai", stream=bool(take_bool(fields, "stream")), prompt="")
    _lengths(chat, fields, options)
    _choices(chat, fields)
    chat.suffix = take(fields, "suffix", _string, "a string") or None
    echo = take_bool(fields, "echo")
    chat.format = take_openai_format(fields)
    chat.keep_alive = take_keep_alive(fields)
    stream_options = fields.pop("stream_options", None)
    if stream_options is not None:
        wanted = take_bool(object_fields(stream_options, "stream_options"), "include_usage")
        chat.include_usage = bool(wanted) and chat.stream
    for option in ENGINE_OPTIONS:
        if option in fields:
            options.setdefault(option, fields.pop(option))
    for dropped in (*OURS, *_OF_CHATS):
        fields.pop(dropped, None)
    chat.options = carry(options, "options.")
    chat.extra = carry(fields)
    if echo:
        chat.extra["echo"] = Raw(b"true")
    replace = msgspec.structs.replace
    return [
        replace(chat, prompt=prompt) if isinstance(prompt, str) else replace(chat, prompt_tokens=prompt)
        for prompt in prompts
    ]


def _prompts(raw: Raw) -> list[str | list[int]]:
    start = bytes(raw)[:1]
    if start == b'"':
        return [_decode(raw, _string)]
    if start != b"[":
        raise _wrong_prompt()
    items = list_items(raw, "prompt")
    if not items:
        raise BadRequest("Invalid value for 'prompt': expected at least one prompt.", param="prompt")
    first = bytes(items[0])[:1]
    if first not in b'"[':
        return [_decode(raw, _token_ids)]
    if len(items) > MOST_PROMPTS:
        raise BadRequest(f"Invalid value for 'prompt': expected {MOST_PROMPTS} prompts at most.", param="prompt")
    if first == b'"':
        return [_decode(item, _string) for item in items]
    prompts: list[str | list[int]] = [_decode(item, _token_ids) for item in items]
    if not all(prompts):
        raise BadRequest("Invalid value for 'prompt': expected at least one token id in each array.", param="prompt")
    return prompts


def _decode(raw: Raw, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise _wrong_prompt() from None


def _wrong_prompt() -> BadRequest:
    return BadRequest(f"Invalid value for 'prompt': expected {_PROMPT}.", param="prompt")


def _lengths(chat: Chat, fields: Fields, options: Fields) -> None:
    """Sampling, stops and length; the body's own fields before Ollama's options."""
    chat.sampling = Sampling()
    take_sampling(fields, chat.sampling)
    take_sampling(options, chat.sampling, "options.{}")
    chat.stop = take_stop(fields) or take_stop(options, "options.stop") or []
    most = take_int(fields, "max_tokens")
    newer = take_int(fields, "max_completion_tokens")
    nested = take_num_predict(options, "options.{}")
    most = next((n for n in (most, newer, nested) if n is not None), None)
    if most is not None and most < 0:
        raise BadRequest("Invalid value for 'max_tokens': expected at least 0.", param="max_tokens")
    chat.max_tokens = most


def _choices(chat: Chat, fields: Fields) -> None:
    count = take_int(fields, "n")
    chat.n = 1 if count is None else count
    if not 1 <= chat.n <= MOST_ANSWERS:
        raise BadRequest(f"Invalid value for 'n': expected 1 to {MOST_ANSWERS}.", param="n")
    best = take_int(fields, "best_of")
    if best is not None and best > chat.n:
        raise BadRequest("'best_of' above 'n' is not supported.", param="best_of")
    if "logprobs" not in fields:
        return
    raw = fields.pop("logprobs")
    told = plain(raw, "logprobs")
    if isinstance(told, bool):
        # As chats have it.
        chat.logprobs, chat.top_logprobs = told, 0 if told else None
        return
    chat.top_logprobs = take_int({"logprobs": raw}, "logprobs")
    if chat.top_logprobs is None or not 0 <= chat.top_logprobs <= MOST_LOGPROBS:
        raise BadRequest(f"Invalid value for 'logprobs': expected 0 to {MOST_LOGPROBS}.", param="logprobs")
    chat.logprobs = True

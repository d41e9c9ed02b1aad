"""OpenAI's chat body as the one form inside."""

from __future__ import annotations

import msgspec

from buffer.job import Chat, Failure, Sampling
from gateway.dialects import thinking
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, object_fields, read_fields, take, take_bool, take_object
from gateway.dialects.formats import take_openai_format
from gateway.dialects.listing import openai_model as model
from gateway.dialects.listing import openai_models as models
from gateway.dialects.messages import from_openai
from gateway.dialects.openai_answer import Whole, error
from gateway.dialects.openai_plain import parse_plain
from gateway.dialects.openai_stream import Stream
from gateway.dialects.sampling import (
    ENGINE_OPTIONS,
    carry,
    take_int,
    take_keep_alive,
    take_num_predict,
    take_sampling,
    take_stop,
    take_top_logprobs,
)
from gateway.dialects.tools import take_tool_choice, take_tools

__all__ = ["Stream", "Whole", "error", "model", "models", "parse_chat", "unknown_model"]

MOST_ANSWERS = 128
_string = msgspec.json.Decoder(str)

OURS = (
    "priority",
    "request_id",
    "session_id",
    "id_slot",
    "kv_transfer_params",
    "ec_transfer_params",
    "stream_interval",
)
"""Fields by which a client could reach into an engine past the queue, or into another client's request."""
_ODD = frozenset(ENGINE_OPTIONS) | frozenset(OURS)
_LENGTHS = frozenset({"stop", "max_completion_tokens", "max_tokens", "num_predict"})
_CHOICES = frozenset({"n", "tools", "tool_choice", "parallel_tool_calls", "logprobs", "top_logprobs"})
"""Fields that most bodies have none of: those are not asked for each."""


def parse_chat(body: bytes, *, allow_image_urls: bool = False) -> Chat:
    """The chat that ``body`` asks for, whatever content type it came with. Raises ``BadRequest`` and nothing else."""
    chat = parse_plain(body, allow_links=allow_image_urls)
    return parse_any(body, allow_links=allow_image_urls) if chat is None else chat


def parse_any(body: bytes, *, allow_links: bool) -> Chat:
    """As ``parse_chat``, of whatever it may be."""
    fields = read_fields(body, "The request body is empty; a JSON object is expected.")
    options = take_object(fields, "options")
    name = take(fields, "model", _string, "a string")
    if not name:
        raise BadRequest("you must provide a model parameter", param="model")
    if "messages" not in fields:
        raise BadRequest("Missing required parameter: 'messages'.", param="messages")
    show = not thinking.hides_reasoning(fields)
    chat = Chat(name, [], "openai", stream=bool(take_bool(fields, "stream")), show_reasoning=show)
    chat.think = thinking.from_openai(fields, options)
    _lengths(chat, fields, options)
    _choices(chat, fields)
    chat.format = take_openai_format(fields)
    chat.keep_alive = take_keep_alive(fields)
    stream_options = fields.pop("stream_options", None)
    if stream_options is not None:
        chat.include_usage = (
            bool(take_bool(object_fields(stream_options, "stream_options"), "include_usage")) and chat.stream
        )
    chat.messages = from_openai(fields.pop("messages"), allow_links=allow_links)
    if not chat.messages:
        raise BadRequest("[] is too short - 'messages'", param="messages")
    if not _ODD.isdisjoint(fields):
        for name in ENGINE_OPTIONS:
            if name in fields:
                options.setdefault(name, fields.pop(name))
        for name in OURS:
            fields.pop(name, None)
    if options:
        chat.options = carry(options, "options.")
    if fields:
        chat.extra = carry(fields)
    return chat


def _lengths(chat: Chat, fields: Fields, options: Fields) -> None:
    """Sampling, stops and length. The body's own fields go before Ollama's options, which Open WebUI may send along."""
    chat.sampling = Sampling()
    take_sampling(fields, chat.sampling)
    take_sampling(options, chat.sampling, "options.{}")
    if _LENGTHS.isdisjoint(fields) and _LENGTHS.isdisjoint(options):
        return
    chat.stop = take_stop(fields) or take_stop(options, "options.stop") or []
    most = take_int(fields, "max_completion_tokens")
    older = take_int(fields, "max_tokens")
    most = older if most is None else most
    ollama = take_num_predict(fields, "{}")
    nested = take_num_predict(options, "options.{}")
    if most is None:
        most = nested if ollama is None else ollama
    elif most == -1:
        # llama.cpp's clients write "no bound" so.
        most = None
    if most is not None and most < 1:
        raise BadRequest("Invalid value for 'max_tokens': expected at least 1.", param="max_tokens")
    chat.max_tokens = most


def _choices(chat: Chat, fields: Fields) -> None:
    if _CHOICES.isdisjoint(fields):
        return
    count = take_int(fields, "n")
    chat.n = 1 if count is None else count
    if not 1 <= chat.n <= MOST_ANSWERS:
        raise BadRequest(f"Invalid value for 'n': expected 1 to {MOST_ANSWERS}.", param="n")
    chat.tools = take_tools(fields)
    chat.tool_choice = take_tool_choice(fields, chat.tools)
    chat.parallel_tool_calls = take_bool(fields, "parallel_tool_calls")
    chat.logprobs = bool(take_bool(fields, "logprobs"))
    chat.top_logprobs = take_top_logprobs(fields)
    if chat.top_logprobs and not chat.logprobs:
        raise BadRequest("'top_logprobs' is only allowed when 'logprobs' is true.", param="top_logprobs")


def unknown_model(name: str) -> Failure:
    return Failure(f"The model `{name}` does not exist.", 404, "model_not_found", "model")

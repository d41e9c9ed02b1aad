"""Ollama's chat body as the one form inside."""

from __future__ import annotations

import msgspec

from buffer.job import Chat, Failure, Message, Sampling
from gateway.dialects import thinking
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, read_fields, take, take_bool, take_object
from gateway.dialects.formats import take_ollama_format
from gateway.dialects.listing import ollama_ps as ps
from gateway.dialects.listing import ollama_show as show
from gateway.dialects.listing import ollama_tags as tags
from gateway.dialects.messages import from_ollama
from gateway.dialects.ollama_answer import Stream, Whole, error, load_answer
from gateway.dialects.sampling import (
    carry,
    take_keep_alive,
    take_num_predict,
    take_sampling,
    take_stop,
    take_top_logprobs,
)
from gateway.dialects.tools import take_tools

__all__ = [
    "Stream",
    "Whole",
    "cannot_think",
    "error",
    "load_answer",
    "parse_chat",
    "ps",
    "show",
    "show_name",
    "tags",
    "take_name",
    "unknown_model",
]

_string = msgspec.json.Decoder(str)
_OPTION = 'option "{}"'
NO_BODY = "missing request body"


def parse_chat(body: bytes, *, allow_image_urls: bool = False) -> Chat:
    """The chat that ``body`` asks for, whatever content type it came with. Raises ``BadRequest`` and nothing else.

    A chat without messages asks to load the model or to unload it: see ``load_answer``. Of the top-level fields
    that nobody here reads, ``shift`` goes on to Ollama; those that it does not have are dropped, as it does.
    """
    fields = read_fields(body, NO_BODY)
    chat = settings(fields)
    chat.tools = take_tools(fields)
    if "messages" in fields:
        chat.messages = from_ollama(fields.pop("messages"), allow_links=allow_image_urls)
    system = take(fields, "system", _string, "a string") if chat.messages else None
    if system and not any(message.role == "system" for message in chat.messages):
        # Open WebUI puts its system prompt there at times.
        chat.messages.insert(0, Message("system", system))
    return chat


def settings(fields: Fields) -> Chat:
    """What ``/api/chat`` and ``/api/generate`` have in common, taken out of ``fields``. Raises ``BadRequest``."""
    options = take_object(fields, "options")
    name = take_name(fields)
    stream = take_bool(fields, "stream")
    chat = Chat(name, [], "ollama", stream=stream is not False)
    chat.think = thinking.from_ollama(fields, options)
    chat.sampling = Sampling()
    take_sampling(options, chat.sampling, _OPTION)
    chat.stop = take_stop(options, 'option "stop"') or []
    chat.max_tokens = take_num_predict(options)
    chat.format = take_ollama_format(fields)
    chat.keep_alive = take_keep_alive(fields)
    chat.truncate = take_bool(fields, "truncate") is not False
    chat.logprobs = bool(take_bool(fields, "logprobs"))
    chat.top_logprobs = take_top_logprobs(fields)
    if "shift" in fields:
        chat.extra = carry({"shift": fields["shift"]})
    chat.options = carry(options, "options.")
    return chat


def show_name(body: bytes) -> str:
    """The model that a body of ``/api/show`` names. Raises ``BadRequest``."""
    return take_name(read_fields(body, NO_BODY))


def take_name(fields: Fields) -> str:
    """Removes the model's name, which may stand in either of two fields. Raises ``BadRequest``."""
    older = take(fields, "name", _string, "a string")
    name = take(fields, "model", _string, "a string") or older
    if not name:
        raise BadRequest("model is required", param="model")
    return name


def unknown_model(name: str) -> Failure:
    return Failure(f"model '{name}' not found", 404, "model_not_found", "model")


def cannot_think(name: str) -> Failure:
    """The refusal of a chat that asks a model to think which cannot."""
    return Failure(f'"{name}" does not support thinking', 400, "", "think")

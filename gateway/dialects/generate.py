"""Ollama's ``/api/generate``: a prompt in place of messages."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import Raw

from buffer.job import Chat, Message, Part, TextPart
from gateway.dialects import ollama
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import read_fields, take, take_bool
from gateway.dialects.media import media
from gateway.dialects.ollama_answer import Stream, Whole
from gateway.dialects.ollama_answer import load_answer as _load_answer
from gateway.dialects.ollama_line import Shape

_string = msgspec.json.Decoder(str)
_strings = msgspec.json.Decoder(list[str])
_ints = msgspec.json.Decoder(list[int])
_BARE = Shape(b'"response":', b"")
_PROMPTED = Shape(b'"response":', b"", b',"context":[]')
"""The tokens of the conversation so far, which older clients send back to go on from: engines apart from Ollama tell
none and take none. Ollama's clients look for the member, and an empty one is what a first request sends."""


def parse(body: bytes, *, allow_image_urls: bool = False) -> Chat:
    """What ``body`` asks for: a chat of one turn, so that the model's template and its thinking stay right; or a
    literal prompt, where it is to be ``raw`` or has a ``suffix``. Raises ``BadRequest`` and nothing else.

    Without a prompt it asks to load the model or to unload it: see ``load_answer``. ``template`` stays in ``extra``:
    engines have one of their own. ``context`` is checked and dropped.
    """
    fields = read_fields(body, ollama.NO_BODY)
    chat = ollama.settings(fields)
    prompt = take(fields, "prompt", _string, "a string")
    suffix = take(fields, "suffix", _string, "a string")
    system = take(fields, "system", _string, "a string")
    template = take(fields, "template", _string, "a string")
    context = take(fields, "context", _ints, "an array of integers")
    images = take(fields, "images", _strings, "an array of base64 strings") or []
    raw = take_bool(fields, "raw")
    if raw and (template or system or context):
        raise BadRequest("raw mode does not support template, system, or context")
    parts: list[Part] = [media(image, allow_links=allow_image_urls, param="images") for image in images if image]
    if template:
        chat.extra["template"] = Raw(b"true")
    if not prompt:
        return chat
    if raw or suffix:
        chat.prompt = prompt
        # Raw is raw: only a template knows where a suffix goes.
        chat.suffix = None if raw else suffix
        if parts:
            chat.messages = [Message("user", parts)]
        return chat
    if system:
        chat.messages.append(Message("system", system))
    chat.messages.append(Message("user", [TextPart(prompt), *parts] if parts else prompt))
    return chat


def stream(chat: Chat, *, id: str, created: float, failure_as_text: bool = False) -> Stream:
    return Stream(chat, id=id, created=created, failure_as_text=failure_as_text, shape=_shape(chat))


def whole(chat: Chat, *, id: str, created: float) -> Whole:
    return Whole(chat, id=id, created=created, shape=_shape(chat))


load_answer = partial(_load_answer, shape=_BARE)
"""The answer to a request without a prompt; None for all others."""


def _shape(chat: Chat) -> Shape:
    """A raw prompt is no part of a conversation, and has no tokens of one."""
    return _BARE if chat.prompt is not None and chat.suffix is None else _PROMPTED

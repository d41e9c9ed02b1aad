"""What a chat asks, as a digest: two that have the same get the same answer, whatever API they came by. Pure.

Everything that is in the one form inside counts, but for what only tells how the answer is to be sent; so a field that
comes to be later counts unless somebody says that it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw, structs

from buffer.job import AudioPart, Chat, Format, ImagePart, Message, Part, Sampling, TextPart, encode_chat
from buffer.names import model_key
from gateway.dialects.responses_object import ASKED
from gateway.models import Model

_THINKS: Final = frozenset({"on", "low", "medium", "high", "max"})
_NO_SHAPE: Final = frozenset({"user", "metadata", "store", "safety_identifier", "prompt_cache_key", ASKED})
"""Fields carried through that say who asks or how it is to be filed."""
_UNORDERED: Final = frozenset({"logit_bias", "chat_template_kwargs", "vllm_xargs"})
"""Those whose members' order means nothing. Of a schema's it does: engines write an object's members in that order."""
_RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "temperature": (0, 2),
    "top_p": (1e-4, 1),
    "top_k": (0, float("inf")),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repeat_penalty": (1e-9, float("inf")),
    "repeat_last_n": (0, float("inf")),
}
"""Numbers beyond them are bent for Ollama's clients and passed on for all others."""
_UNTOLD_CONTEXT: Final = 2048
_MEDIUM_TOKENS: Final = 4096
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Question:
    digest: str
    model: str
    """By which its answers are purged."""
    n: int


def purge_name(model: str) -> str:
    """What all spellings of a model's name have in common."""
    return model_key(model).tail


def ask(chat: Chat, model: Model, scope: str = "") -> Question | None:
    """What ``chat`` asks of ``model``; None where its answer may not be given to anybody else. ``scope``: of whom alone
    it may.

    ``chat.think`` is what was found out about the model, not what the client sent.
    """
    if chat.think in _THINKS or chat.tools or chat.max_tokens == 0 or not _is_deterministic(chat.sampling):
        return None
    messages = _messages(chat.messages)
    if messages is None:
        return None
    shape = structs.replace(
        chat,
        model="",
        messages=messages,
        front=_front(chat, model),
        stream=False,
        show_reasoning=True,
        include_usage=False,
        keep_alive=None,
        tool_choice=None,
        parallel_tool_calls=None,
        format=_format(chat.format),
        options=_settled(chat.options),
        extra=_settled(chat.extra),
    )
    found = blake2b(digest_size=20)
    for part in (encode_chat(shape), _of_model(model), scope.encode("utf-8", "replace")):
        found.update(b"%d:" % len(part))
        found.update(part)
    return Question(found.hexdigest(), purge_name(model.queue), chat.n)


def _is_deterministic(sampling: Sampling) -> bool:
    cold = sampling.temperature is not None and sampling.temperature <= 0
    # Below 0 it means any.
    return cold or (sampling.seed is not None and sampling.seed >= 0)


def _of_model(model: Model) -> bytes:
    """What answers: the queue, and what stands behind it at engines. Where a model is pulled anew, its digest there is
    another one.
    """
    behind = {
        (offer.state.kind, offer.info.id, offer.info.digest)
        for offer in model.offers
        if offer.state.name not in model.stand_ins
    }
    return _encode((model.pool, model.queue, sorted(behind), model.record))


def _messages(messages: list[Message]) -> list[Message] | None:
    """Pictures and sound by what they are. None: there is a link, and nobody knows what is behind it."""
    if all(isinstance(message.content, str) for message in messages):
        return messages
    found: list[Message] = []
    for message in messages:
        if isinstance(message.content, str):
            found.append(message)
            continue
        parts: list[Part] = []
        for part in message.content:
            match part:
                case TextPart():
                    parts.append(part)
                case ImagePart(url):
                    head, comma, data = url.partition(",")
                    if not comma or not head.startswith("data:"):
                        return None
                    parts.append(ImagePart(_digest(data)))
                case AudioPart(data, form):
                    parts.append(AudioPart(_digest(data), form))
        only = parts[0] if len(parts) == 1 else None
        content: str | list[Part] = only.text if isinstance(only, TextPart) else parts
        found.append(structs.replace(message, content=content))
    return found


def _digest(data: str) -> str:
    return blake2b(data.encode("utf-8", "replace"), digest_size=20).hexdigest()


def _front(chat: Chat, model: Model) -> Any:
    """Ollama's clients are served where others are told that it cannot be: numbers that make no sense, prompts that are
    too long. Where that may be so, and where the prompt is literal, an answer is for clients of one sort alone.
    """
    if chat.front != "ollama":
        return "openai"
    bent = any(
        (value := getattr(chat.sampling, name)) is not None and not least <= value <= most
        for name, (least, most) in _RANGES.items()
    )
    return "ollama" if bent or chat.prompt is not None or not _surely_fits(chat, model) else "openai"


def _surely_fits(chat: Chat, model: Model) -> bool:
    """A token is a byte at least."""
    told = (offer.info.context_length for offer in model.offers if offer.info.context_length)
    room = min(told, default=_UNTOLD_CONTEXT)
    for message in chat.messages:
        if isinstance(message.content, str):
            room -= len(message.content.encode("utf-8", "replace")) + 16
        else:
            room -= len(message.text().encode("utf-8", "replace")) + _MEDIUM_TOKENS * len(message.content)
    return room > 0


def _format(wanted: Format | None) -> Format | None:
    if wanted is None or wanted.schema is None:
        return wanted
    return structs.replace(wanted, schema=Raw(_encode(_decode(wanted.schema))))


def _settled(fields: Mapping[str, Raw]) -> dict[str, Raw]:
    """In one order, without blanks, and whole numbers as such."""
    if not fields:
        return {}
    return {name: _plain(name, fields[name]) for name in sorted(fields) if name not in _NO_SHAPE}


def _plain(name: str, raw: Raw) -> Raw:
    value = _decode(raw)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, dict) and name in _UNORDERED:
        value = {key: value[key] for key in sorted(value)}
    return Raw(_encode(value))

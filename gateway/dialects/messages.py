"""The turns of a chat, from either body, with every tool result tied to the call it answers."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from buffer.job import AudioPart, ImagePart, Message, Part, TextPart, ToolCall
from gateway.dialects.errors import BadRequest
from gateway.dialects.media import audio, media
from gateway.dialects.tools import WireCall, WireFunction, read_calls

T = TypeVar("T")

_SPEAKING = frozenset({"system", "developer", "user"})
_TOLD = frozenset({"tool", "function"})
_OPENAI_ROLES = _SPEAKING | _TOLD | {"assistant"}


class _Link(Struct, gc=False):
    url: str


class _Sound(Struct, gc=False):
    data: str
    format: str | None = None


class _Part(Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    image_url: _Link | str | None = None
    input_audio: _Sound | None = None


class OpenAIMessage(Struct, gc=False):
    """As an OpenAI body has it."""

    role: str
    content: str | list[_Part] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: WireFunction | None = None
    tool_call_id: str | None = None
    name: str | None = None


class _OllamaMessage(Struct, gc=False):
    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[WireCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


_openai = msgspec.json.Decoder(list[OpenAIMessage])
_ollama = msgspec.json.Decoder(list[_OllamaMessage])


def from_openai(raw: Raw, *, allow_links: bool) -> list[Message]:
    """The messages of an OpenAI body. Raises ``BadRequest``."""
    return openai_messages(_decode(raw, _openai), allow_links=allow_links)


def openai_messages(wire: list[OpenAIMessage], *, allow_links: bool) -> list[Message]:
    """Raises ``BadRequest``."""
    messages: list[Message] = []
    results = False
    for place, one in enumerate(wire):
        message = _openai_message(one, place, allow_links)
        results = results or message.role == "tool"
        messages.append(message)
    if results:
        tie_results(messages)
    return messages


def from_ollama(raw: Raw, *, allow_links: bool) -> list[Message]:
    """The messages of an Ollama body. Raises ``BadRequest``."""
    wire = _decode(raw, _ollama)
    messages = [_ollama_message(message, place, allow_links) for place, message in enumerate(wire)]
    tie_results(messages)
    return messages


def _decode(raw: Raw, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(raw)
    except RecursionError:
        raise BadRequest("'messages' is nested too deeply.", param="messages") from None
    except msgspec.DecodeError as error:
        # Says which type was found where, and nothing of what it held.
        raise BadRequest(f"Invalid 'messages': {error}", param="messages") from None


def _openai_message(wire: OpenAIMessage, place: int, allow_links: bool) -> Message:
    role, content = wire.role, wire.content
    if role not in _OPENAI_ROLES:
        known = ", ".join(f"'{name}'" for name in sorted(_OPENAI_ROLES))
        where = f"messages[{place}].role"
        raise BadRequest(f"Invalid value for '{where}'. Supported values are: {known}.", param=where)
    if content is None:
        if role in _SPEAKING:
            where = f"messages[{place}].content"
            raise BadRequest(f"'{where}' must be a string or an array of parts.", param=where)
        content = ""
    said = content if isinstance(content, str) else _content(content, f"messages[{place}]", allow_links)
    message = Message("system" if role == "developer" else role, said)
    if role == "assistant":
        message.reasoning = wire.reasoning or wire.reasoning_content or ""
        if wire.tool_calls:
            message.tool_calls = read_calls(wire.tool_calls, place)
        elif wire.function_call is not None:
            message.tool_calls = read_calls([WireCall(wire.function_call)], place)
    elif role in _TOLD:
        message.role = "tool"
        message.tool_call_id = wire.tool_call_id or ""
        message.tool_name = wire.name or ""
        return message
    if wire.name:
        message.name = wire.name
    return message


def _content(content: list[_Part], where: str, allow_links: bool) -> str | list[Part]:
    parts = [_part(part, f"{where}.content[{place}]", allow_links) for place, part in enumerate(content)]
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return parts


def _part(part: _Part, where: str, allow_links: bool) -> Part:
    if part.type in {"text", "input_text", "output_text"} and part.text is not None:
        return TextPart(part.text)
    if part.type == "refusal" and part.refusal is not None:
        return TextPart(part.refusal)
    if part.type == "image_url" and part.image_url is not None:
        url = part.image_url if isinstance(part.image_url, str) else part.image_url.url
        return media(url, allow_links=allow_links, param=where)
    if part.type == "input_audio" and part.input_audio is not None:
        return audio(part.input_audio.data, part.input_audio.format or "", where)
    raise BadRequest(
        f"Invalid value for '{where}': expected a part of type 'text', 'image_url' or 'input_audio'.", param=where
    )


def _ollama_message(wire: _OllamaMessage, place: int, allow_links: bool) -> Message:
    text = wire.content or ""
    content: str | list[Part] = text
    if wire.images:
        found: list[ImagePart | AudioPart] = [
            media(image, allow_links=allow_links, param=f"messages[{place}].images") for image in wire.images
        ]
        content = [TextPart(text), *found] if text else [*found]
    message = Message(wire.role.lower(), content)
    if message.role == "assistant":
        message.reasoning = wire.thinking or ""
        message.tool_calls = read_calls(wire.tool_calls or [], place)
    elif message.role == "tool":
        message.tool_call_id = wire.tool_call_id or ""
        message.tool_name = wire.tool_name or ""
    return message


def tie_results(messages: list[Message]) -> None:
    """Gives each tool result the id and the name of the call that it answers; clients drop the one or the other.

    By its id where that is known; else the first open call of that name in the turn before it; else the first open call
    there at all. A result that answers nothing keeps its id, or gets one.
    """
    names: dict[str, str] = {}
    answered: set[str] = set()
    calls: deque[ToolCall] = deque()
    by_name: dict[str, deque[ToolCall]] = {}
    orphans = 0
    for message in messages:
        if message.role == "assistant" and message.tool_calls:
            calls = deque(message.tool_calls)
            names.update((call.id, call.name) for call in calls)
            by_name = {}
            for call in calls:
                by_name.setdefault(call.name, deque()).append(call)
        if message.role != "tool":
            continue
        if message.tool_call_id not in names:
            found = _first_open(by_name.get(message.tool_name, deque()), answered) or _first_open(calls, answered)
            if found is not None:
                message.tool_call_id = found.id
            elif not message.tool_call_id:
                message.tool_call_id = f"call_orphan_{orphans}"
                orphans += 1
        answered.add(message.tool_call_id)
        message.tool_name = message.tool_name or names.get(message.tool_call_id, "")


def _first_open(calls: deque[ToolCall], answered: set[str]) -> ToolCall | None:
    """The first call that nothing has answered yet. Those before it are dropped, so that many cost no more than few."""
    while calls and calls[0].id in answered:
        calls.popleft()
    return calls[0] if calls else None

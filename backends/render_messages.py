"""Pure: messages in OpenAI's form, as engines want them."""

from __future__ import annotations

from typing import Any

from backends.thinking import Plan
from buffer.backend import Kind
from buffer.job import AudioPart, Chat, ImagePart, Message, Part, TextPart


def openai_messages(chat: Chat, kind: Kind, chosen: Plan) -> list[dict[str, Any]]:
    messages = _system_first(chat.messages) if chosen.family.system_first else chat.messages
    return [_message(message, kind) for message in messages]


def _system_first(messages: list[Message]) -> list[Message]:
    """One system message at the beginning; some templates refuse any other order."""
    systems = [message.text() for message in messages if message.role == "system"]
    if not systems:
        return messages
    rest = [message for message in messages if message.role != "system"]
    return [Message("system", "\n\n".join(systems)), *rest]


def _message(message: Message, kind: Kind) -> dict[str, Any]:
    # Every message has the key ``content``: llama.cpp refuses those without, null or not.
    wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.role == "tool":
        wire["tool_call_id"] = message.tool_call_id
        if message.tool_name:
            wire["name"] = message.tool_name
    elif message.name:
        wire["name"] = message.name
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in message.tool_calls
        ]
    if message.reasoning and kind in ("vllm", "llamacpp"):
        # vLLM reads the first name, llama.cpp and older vLLM the second.
        wire["reasoning"] = wire["reasoning_content"] = message.reasoning
    return wire


def _content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    if message.role == "tool" or all(isinstance(part, TextPart) for part in message.content):
        # Templates that know no parts still know a text.
        return message.text()
    return [_part(part) for part in message.content]


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(url):
            return {"type": "image_url", "image_url": {"url": url}}
        case AudioPart(data, audio_format):
            return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}

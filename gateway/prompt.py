"""What of a chat costs an engine work: the prompt in pieces that its prefix cache may know."""

from __future__ import annotations

from array import array
from hashlib import blake2b

from buffer.job import AudioPart, Chat, ImagePart, Message, TextPart
from policy.estimate import BYTES_PER_TOKEN, IMAGE_TOKENS
from policy.prefix import Mixed, Part

_AUDIO_BASE64_BYTES_PER_TOKEN = 1000
"""A second of speech is some ten tokens to the usual encoders, and at least ten kilobytes of base64."""


def prompt_parts(chat: Chat) -> list[Part]:
    """The prompt as an engine's template would lay it out, tools first."""
    parts: list[Part] = []
    if chat.tools:
        parts.append(b"".join(bytes(tool) for tool in chat.tools))
    for message in chat.messages:
        content = message.content
        if isinstance(content, str) and not message.tool_calls:
            parts.append((message.role + content).encode(errors="replace"))
        else:
            parts.append(_mixed(message))
    if chat.prompt is not None:
        parts.append(chat.prompt.encode(errors="replace"))
    if chat.prompt_tokens:
        tokens = array("I", (token & 0xFFFFFFFF for token in chat.prompt_tokens))
        parts.append(Mixed(tokens.tobytes(), tokens_per_byte=1 / tokens.itemsize))
    if chat.suffix:
        parts.append(chat.suffix.encode(errors="replace"))
    return parts


def newest_user_chars(chat: Chat) -> int:
    """Characters of the newest user message, or of a literal prompt; 0 without one."""
    if chat.prompt is not None:
        return len(chat.prompt) or len(chat.prompt_tokens) * BYTES_PER_TOKEN
    for message in reversed(chat.messages):
        if message.role == "user":
            return len(message.text())
    return 0


def _mixed(message: Message) -> Part:
    other = 0
    pieces = [message.role.encode(errors="replace")]
    if isinstance(message.content, str):
        pieces.append(message.content.encode(errors="replace"))
    else:
        for part in message.content:
            match part:
                case TextPart():
                    pieces.append(part.text.encode(errors="replace"))
                case ImagePart():
                    pieces.append(_digest(part.url))
                    other += IMAGE_TOKENS
                case AudioPart():
                    pieces.append(_digest(part.data))
                    other += len(part.data) // _AUDIO_BASE64_BYTES_PER_TOKEN + 1
    for call in message.tool_calls:
        pieces += (call.name.encode(errors="replace"), call.arguments.encode(errors="replace"))
    data = b"".join(pieces)
    return Mixed(data, other) if other else data


def _digest(data: str) -> bytes:
    return blake2b(data.encode(errors="replace"), digest_size=16).digest()

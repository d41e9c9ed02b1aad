"""What of a chat costs an engine work: the prompt in pieces that its prefix cache may know."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b

from buffer.job import AudioPart, Chat, ImagePart, Message, TextPart
from policy.estimate import BYTES_PER_TOKEN, IMAGE_TOKENS

_IMAGE_BYTES = IMAGE_TOKENS * BYTES_PER_TOKEN
_AUDIO_BASE64_BYTES_PER_TOKEN = 1000
"""A second of speech is some ten tokens to the usual encoders, and at least ten kilobytes of base64."""


def prompt_parts(chat: Chat) -> Iterator[bytes]:
    """The prompt as an engine's template would lay it out, tools first.

    What is no text becomes filler that is as long as its tokens and different for different data.
    """
    if chat.tools:
        yield b"".join(bytes(tool) for tool in chat.tools)
    for message in chat.messages:
        yield b"".join(_pieces(message))
    if chat.prompt is not None:
        yield chat.prompt.encode(errors="replace")
    if chat.prompt_tokens:
        # As long as so many tokens are estimated to be.
        yield array("I", (token & 0xFFFFFFFF for token in chat.prompt_tokens)).tobytes()
    if chat.suffix:
        yield chat.suffix.encode(errors="replace")


def newest_user_chars(chat: Chat) -> int:
    """Characters of the newest user message, or of a literal prompt; 0 without one."""
    if chat.prompt is not None:
        return len(chat.prompt) or len(chat.prompt_tokens) * BYTES_PER_TOKEN
    for message in reversed(chat.messages):
        if message.role == "user":
            return len(message.text())
    return 0


def _pieces(message: Message) -> Iterator[bytes]:
    yield message.role.encode(errors="replace")
    if isinstance(message.content, str):
        yield message.content.encode(errors="replace")
    else:
        for part in message.content:
            match part:
                case TextPart():
                    yield part.text.encode(errors="replace")
                case ImagePart():
                    yield _filler(part.url, _IMAGE_BYTES)
                case AudioPart():
                    tokens = len(part.data) // _AUDIO_BASE64_BYTES_PER_TOKEN + 1
                    yield _filler(part.data, tokens * BYTES_PER_TOKEN)
    for call in message.tool_calls:
        yield call.name.encode(errors="replace")
        yield call.arguments.encode(errors="replace")


def _filler(data: str, size: int) -> bytes:
    digest = blake2b(data.encode(errors="replace"), digest_size=32).digest()
    return (digest * (size // len(digest) + 1))[:size]

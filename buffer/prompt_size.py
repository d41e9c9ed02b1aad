"""How much text a prompt is made of, for those who compare it with the tokens that an engine counted. Pure."""

from __future__ import annotations

from typing import NamedTuple

from buffer.job import Chat, TextPart


class TextSize(NamedTuple):
    size: int
    """Bytes of UTF-8."""
    pieces: int
    """Messages, tools as one, and so on: a template puts something around each."""


def text_size(chat: Chat) -> TextSize | None:
    """None: there are pictures, sound or bare tokens in it, whose size says nothing of text."""
    if chat.prompt_tokens:
        return None
    size, pieces = 0, len(chat.messages)
    if chat.tools:
        size += sum(len(bytes(tool)) for tool in chat.tools)
        pieces += 1
    for message in chat.messages:
        size += _size(message.role)
        if isinstance(message.content, str):
            size += _size(message.content)
        else:
            for part in message.content:
                if not isinstance(part, TextPart):
                    return None
                size += _size(part.text)
        for call in message.tool_calls:
            size += _size(call.name) + _size(call.arguments)
    for text in (chat.prompt, chat.suffix):
        if text:
            size += _size(text)
            pieces += 1
    return TextSize(size, pieces)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))

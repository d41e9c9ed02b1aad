"""A request's messages as an engine sees them: one text, its length, and its blocks for the prefix cache. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from simulate.engine import BLOCK_TOKENS
from simulate.text import CHARS_PER_TOKEN, count_tokens

IMAGE_TOKENS = 512
"""What an image or a sound counts for."""


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    tokens: int
    blocks: tuple[int, ...]
    """Chain of hashes of its full blocks; hold good within this process."""


class PromptError(ValueError):
    """The messages are none. ``str()`` says why, without their words."""


def render(messages: Sequence[object], tools: Sequence[object] = ()) -> Prompt:
    """Tools first, then the messages in their order, as chat templates have it; thoughts of earlier turns are left out.

    Raises ``PromptError``.
    """
    parts: list[str] = []
    media = 0
    if tools:
        parts.append(f"<|tools|>{_json(tools)}\n")
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise PromptError("each message must be an object with a role")
        text, count = _content(message.get("content"))
        media += count + len(message.get("images") or ())
        calls = message.get("tool_calls")
        parts.append(f"<|{message['role']}|>{text}{_json(calls) if calls else ''}\n")
    parts.append("<|assistant|>")
    text = "".join(parts)
    return Prompt(text, count_tokens(text) + media * IMAGE_TOKENS, _chain(text))


def lengthened(prompt: Prompt, text: str, tokens: int) -> Prompt:
    """With a text of so many tokens behind it."""
    whole = prompt.text + text
    return Prompt(whole, prompt.tokens + tokens, _chain(whole))


def raw(text: str) -> Prompt:
    """A prompt that is given as it is."""
    return Prompt(text, max(1, count_tokens(text)), _chain(text))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _content(content: object) -> tuple[str, int]:
    """The words of a message, and how many images or sounds are beside them."""
    if content is None:
        return "", 0
    if isinstance(content, str):
        return content, 0
    if not isinstance(content, list):
        raise PromptError("content must be a text or a list of parts")
    words: list[str] = []
    for part in content:
        if not isinstance(part, Mapping):
            raise PromptError("each part of a content must be an object")
        if isinstance(part.get("text"), str):
            words.append(part["text"])
    return "\n".join(words), len(content) - len(words)


def _chain(text: str) -> tuple[int, ...]:
    size = BLOCK_TOKENS * CHARS_PER_TOKEN
    chain: list[int] = []
    link = 0
    for start in range(0, len(text) - size + 1, size):
        link = hash((link, text[start : start + size]))
        chain.append(link)
    return tuple(chain)

"""What the engines of the cases say, streamed or whole as they are asked."""

from __future__ import annotations

from typing import Any

from tests.rig.connection import Recorded
from tests.rig.script import DONE, Piece, Status, chunk, done, finish, line, role, usage


def streams(request: Recorded) -> bool:
    """Whether the engine is asked for a stream: Ollama's way is one unless told, OpenAI's is none."""
    asked = request.json().get("stream")
    return asked is True or (asked is None and request.path.startswith("/api/"))


def oai(request: Recorded, *content: str, thinking: str = "", reason: str = "stop") -> list[Piece]:
    """An answer in OpenAI's form, as vLLM writes it."""
    if not streams(request):
        message: dict[str, Any] = {"role": "assistant", "content": "".join(content)}
        if thinking:
            message["reasoning_content"] = thinking
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return [Status(200, usage(7, len(content)) | {"object": "chat.completion", "choices": [choice]})]
    thoughts = [chunk({"reasoning_content": thinking})] if thinking else []
    counts = [usage(7, len(content))] if (request.json().get("stream_options") or {}).get("include_usage") else []
    return [role(), *thoughts, *content, finish(reason), *counts, DONE]


def oll(request: Recorded, *content: str, thinking: str = "", reason: str = "stop") -> list[Piece]:
    """An answer in Ollama's form."""
    if not streams(request):
        message = {"role": "assistant", "content": "".join(content)} | ({"thinking": thinking} if thinking else {})
        return [Status(200, done(reason) | {"message": message})]
    return [*([line(thinking=thinking)] if thinking else []), *content, done(reason, completion=len(content))]


def plain(request: Recorded) -> list[Piece]:
    """What a healthy engine says."""
    return oll(request, "o", "k") if request.path.startswith("/api/") else oai(request, "o", "k")

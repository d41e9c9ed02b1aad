"""The words of a scripted back end: what it sends for one request, piece by piece."""

from __future__ import annotations

import asyncio
import enum
import json
from dataclasses import dataclass, field
from typing import Any, Literal

Flavour = Literal["openai", "ollama"]


class Word(enum.Enum):
    HEAD = "head"
    """Send the status line and headers of a stream now; otherwise they go with the first piece."""
    FIN = "fin"
    """End the body as HTTP wants it, then close."""
    CUT = "cut"
    """Close without the body's end, as a killed engine does."""
    RST = "rst"
    """Reset the connection."""
    HOLD = "hold"
    """Send nothing more, until the peer closes."""


HEAD, FIN, CUT, RST, HOLD = Word.HEAD, Word.FIN, Word.CUT, Word.RST, Word.HOLD


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Wait:
    """Go on when the test sets the event."""

    event: asyncio.Event


@dataclass(frozen=True)
class Status:
    """A whole answer. A ``dict`` or ``list`` body goes out as JSON."""

    code: int = 200
    body: Any = ""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


Piece = bytes | str | dict[str, Any] | Word | Sleep | Wait | Status
"""``bytes``: raw. ``dict``: one event of the flavour. ``str``: an event with this text as the answer's content."""

DONE = b"data: [DONE]\n\n"


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, index: int = 0, **fields: Any
) -> dict[str, Any]:
    """A chat completion chunk of OpenAI's form with one choice."""
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    return {
        "id": "chatcmpl-s",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **fields,
    }


def role() -> dict[str, Any]:
    return chunk({"role": "assistant", "content": ""})


def reasoning(text: str, name: str = "reasoning") -> dict[str, Any]:
    return chunk({name: text})


def tool(index: int, arguments: str = "", *, call_id: str = "", name: str = "") -> dict[str, Any]:
    """A fragment of a tool call of OpenAI's form."""
    function: dict[str, Any] = {"arguments": arguments}
    entry: dict[str, Any] = {"index": index, "function": function}
    if call_id:
        entry |= {"id": call_id, "type": "function"}
    if name:
        function["name"] = name
    return chunk({"tool_calls": [entry]})


def finish(reason: str = "stop") -> dict[str, Any]:
    return chunk({}, reason)


def usage(prompt: int, completion: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {
        "id": "chatcmpl-s",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": counts,
    }


def line(content: str = "", *, thinking: str = "", **fields: Any) -> dict[str, Any]:
    """A line of Ollama's form."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if thinking:
        message["thinking"] = thinking
    return {"model": "m", "created_at": "2026-11-30T08:00:00.1Z", "message": message, "done": False, **fields}


def done(reason: str = "stop", *, prompt: int = 7, completion: int = 1, **fields: Any) -> dict[str, Any]:
    """The last line of Ollama's form."""
    times = {
        "total_duration": 9_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_duration": 3_000_000,
        "eval_duration": 5_000_000,
    }
    counts = {"prompt_eval_count": prompt, "eval_count": completion}
    return {**line(), "done": True, "done_reason": reason, **times, **counts, **fields}


def answer(flavour: Flavour, *texts: str) -> list[Piece]:
    """A healthy stream of these pieces of content, counts and all."""
    if flavour == "ollama":
        return [*texts, done("stop", completion=len(texts))]
    return [role(), *texts, finish("stop"), usage(7, len(texts)), DONE]


def encode(flavour: Flavour, piece: bytes | str | dict[str, Any]) -> bytes:
    """A piece as the bytes of its flavour's stream."""
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, str):
        piece = line(piece) if flavour == "ollama" else chunk({"content": piece})
    text = json.dumps(piece, ensure_ascii=False, separators=(",", ":")).encode()
    return text + b"\n" if flavour == "ollama" else b"data: " + text + b"\n\n"


def parse(items: list[Any]) -> list[Piece]:
    """A script that came as JSON: texts, event objects, ``{"word": "rst"}``, ``{"sleep": 0.02}``, ``{"raw": text}``,
    ``{"status": 503, "body": …}``."""
    pieces: list[Piece] = []
    for item in items:
        match item:
            case {"word": word}:
                pieces.append(Word(word))
            case {"sleep": seconds}:
                pieces.append(Sleep(seconds))
            case {"raw": text}:
                pieces.append(text.encode())
            case {"status": code}:
                pieces.append(
                    Status(code, item.get("body", ""), item.get("type", "application/json"), item.get("headers", {}))
                )
            case _:
                pieces.append(item)
    return pieces

"""What the scripted engines say beside words: calls of tools, and how likely each word was."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.rig.script import DONE, Flavour, Piece, chunk, done, line, role, usage

ARGUMENTS = {"city": "Tōkyō"}


def asked_call(body: dict[str, Any]) -> str | None:
    """The tool that the newest message asks to be called, ``call:NAME``, where there is such a tool."""
    messages = body.get("messages") or [{}]
    if not body.get("stream", True) or messages[-1].get("role") != "user":
        return None
    found = re.findall(r"call:(\w+)", json.dumps(messages[-1], ensure_ascii=False))
    offered = [(tool.get("function") or {}).get("name") for tool in body.get("tools") or []]
    return found[-1] if found and found[-1] in offered else None


def call_pieces(flavour: Flavour, name: str) -> list[Piece]:
    """A stream that calls a tool with ``ARGUMENTS``, in pieces where the server would send pieces."""
    if flavour == "ollama":
        told = line()
        told["message"]["tool_calls"] = [{"function": {"name": name, "arguments": ARGUMENTS}}]
        return [told, done(prompt=11, completion=7)]
    text = json.dumps(ARGUMENTS, ensure_ascii=False)
    first = {"index": 0, "id": "call_a", "type": "function", "function": {"name": name, "arguments": text[:5]}}
    return [
        role(),
        chunk({"tool_calls": [first]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[5:]}}]}),
        chunk({}, "tool_calls"),
        usage(11, 7),
        DONE,
    ]


def likely(word: str) -> list[dict[str, Any]]:
    """A word as the one token that it is here."""
    return [{"token": word, "logprob": -0.5, "bytes": list(word.encode()), "top_logprobs": []}]

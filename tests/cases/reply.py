"""An answer as a client of the cases got it, and the forms of errors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(slots=True)
class Reply:
    """One answer. ``body``: as it came over the line, unpacked only if the client asked httpx to."""

    status: int
    headers: httpx.Headers
    body: bytes
    took_s: float
    first_s: float = 0.0
    """Until the first byte of the body."""
    whole: bool = True
    """The body ended as HTTP wants it."""

    @property
    def type(self) -> str:
        return str(self.headers.get("content-type", "")).partition(";")[0]

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[dict[str, Any]]:
        """Each line of an Ollama stream, which has to be JSON by itself."""
        assert self.type == "application/x-ndjson", (self.status, self.type, self.body[:300])
        return [json.loads(line) for line in self.body.splitlines()]

    def frames(self) -> list[str]:
        """The data of each event of an OpenAI stream."""
        assert self.type == "text/event-stream", (self.status, self.type, self.body[:300])
        rows = self.body.decode().split("\n")
        return [row.removeprefix("data:").strip() for row in rows if row.startswith("data:")]

    def chunks(self) -> list[dict[str, Any]]:
        """The events but the closing word, each of which has to be JSON by itself."""
        return [json.loads(frame) for frame in self.frames() if frame != "[DONE]"]

    def deltas(self) -> list[dict[str, Any]]:
        return [choice["delta"] for chunk in self.chunks() for choice in chunk.get("choices", [])]

    def finishes(self) -> list[str]:
        told = [choice for chunk in self.chunks() for choice in chunk.get("choices", [])]
        return [choice["finish_reason"] for choice in told if choice.get("finish_reason")]

    @property
    def content(self) -> str:
        """The answer's words, in whichever form it came."""
        return "".join(part.get("content") or "" for part in self._parts())

    @property
    def thinking(self) -> str:
        names = ("thinking", "reasoning", "reasoning_content")
        found: list[str] = []
        for part in self._parts():
            told = {part[name] for name in names if part.get(name)}
            assert len(told) <= 1, told
            found += told
        return "".join(found)

    def _parts(self) -> list[dict[str, Any]]:
        assert self.status == 200, (self.status, self.body[:500])
        if self.type == "application/x-ndjson":
            return [line["message"] for line in self.lines() if "message" in line]
        if self.type == "text/event-stream":
            return self.deltas()
        told = self.json()
        return [told["message"]] if "message" in told else [choice["message"] for choice in told["choices"]]


def is_native_error(reply: Reply) -> bool:
    told = reply.json()
    return set(told) == {"error"} and isinstance(told["error"], str) and bool(told["error"])


def is_openai_error(reply: Reply) -> bool:
    error = reply.json().get("error")
    return isinstance(error, dict) and all(isinstance(error.get(k), str) and error[k] for k in ("message", "type"))


def refused(reply: Reply, path: str, status: int = 400) -> bool:
    """Whether this is an error of that status in the form of the path's dialect."""
    form = is_native_error if path.startswith("/api/") else is_openai_error
    return reply.status == status and reply.type == "application/json" and form(reply)

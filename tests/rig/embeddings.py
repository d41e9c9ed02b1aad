"""Embeddings that can be checked: the same text gives the same vector, whichever call it came in.

A text with the word ``poison`` has its whole call refused, one with ``crash`` fails it, one with ``long`` is too long.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import struct
from array import array
from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from typing import Any

from tests.rig.connection import Recorded
from tests.rig.script import Piece, Sleep, Status

PATHS = ("/v1/embeddings", "/api/embed", "/api/embeddings")
NUMBERS = 16


def raw_vector(text: str) -> list[float]:
    """What the model makes of a text, before anything brings it to length 1."""
    digest = blake2b(text.encode(), digest_size=4 * NUMBERS).digest()
    return array("f", (number / 2**30 for number in struct.unpack(f"<{NUMBERS}i", digest))).tolist()


def unit_vector(text: str, numbers: int = NUMBERS) -> list[float]:
    """The same at length 1; cut to its first ``numbers`` before."""
    found = raw_vector(text)[:numbers]
    return [number / math.hypot(*found) for number in found]


def close(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two vectors are the same but for rounding to 32 bits."""
    return len(one) == len(other) and all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(one, other, strict=True))


async def _opened(gate: asyncio.Event, request: Recorded) -> bool:
    """Waits for the gate. False: the peer left before."""
    waits = [asyncio.ensure_future(gate.wait()), asyncio.ensure_future(request.closed.wait())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return gate.is_set()


class Embeddings:
    """Of one scripted back end. ``calls``: the inputs of each request, in the order in which they came."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.calls: list[list[Any]] = []
        self.requests: list[Recorded] = []
        self.delay_s = 0.0
        self.gate: asyncio.Event | None = None
        """While it is not set, no call is answered."""
        self.once: list[list[Piece]] = []
        """What is said to the next calls in place of an answer."""
        self.running = self.most_running = 0
        self._news = asyncio.Condition()

    async def received(self, count: int, *, within_s: float = 10.0) -> Recorded:
        """Waits until so many calls have come; the last of these."""
        async with asyncio.timeout(within_s), self._news:
            await self._news.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def script(self, path: str, request: Recorded) -> AsyncIterator[Piece]:
        body = request.json()
        asked = body.get("prompt") if path == "/api/embeddings" else body["input"]
        inputs = asked if isinstance(asked, list) else [asked]
        self.calls.append(inputs)
        self.requests.append(request)
        async with self._news:
            self._news.notify_all()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if self.once:
                for piece in self.once.pop(0):
                    yield piece
                return
            if self.gate is not None and not await _opened(self.gate, request):
                return
            yield Sleep(self.delay_s)
            yield self._answer(path, body, [one if isinstance(one, str) else json.dumps(one) for one in inputs])
        finally:
            self.running -= 1

    def _answer(self, path: str, body: dict[str, Any], texts: list[str]) -> Status:
        words = " ".join(texts).split()
        if "crash" in words:
            return Status(500, {"error": {"message": "unsupported value: NaN", "type": "server_error"}})
        if "poison" in words:
            return self._refused("this input cannot be embedded")
        too_long = not body.get("truncate", path != "/v1/embeddings" or "truncate_prompt_tokens" in body)
        if "long" in words and too_long:
            message = "This model's maximum context length is 5 tokens. However, your request has 10 input tokens."
            return self._refused(message, "input_tokens")
        raw = body.get("embd_normalize") == -1 or body.get("use_activation") is False or path == "/api/embeddings"
        vectors = [raw_vector(text) if raw else unit_vector(text, body.get("dimensions") or NUMBERS) for text in texts]
        if path == "/api/embeddings":
            return Status(200, {"embedding": vectors[0]})
        if path == "/api/embed":
            times = {"total_duration": 9_000_000, "load_duration": 1_000_000, "prompt_eval_count": len(words)}
            return Status(200, {"model": body["model"], "embeddings": vectors, **times})
        told = [base64.b64encode(array("f", v).tobytes()).decode() for v in vectors]
        data = [
            {"object": "embedding", "index": i, "embedding": told[i] if body["encoding_format"] == "base64" else v}
            for i, v in enumerate(vectors)
        ]
        # In whatever order: the index tells.
        usage = {"prompt_tokens": len(words), "total_tokens": len(words)}
        return Status(200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage})

    def _refused(self, message: str, param: str | None = None) -> Status:
        if self.kind == "ollama":
            return Status(400, {"error": message})
        return Status(400, {"error": {"message": message, "type": "BadRequestError", "param": param, "code": 400}})

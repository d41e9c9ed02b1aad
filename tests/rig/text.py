"""What the scripted engines say to a literal prompt: the same words as to a chat, and no thinking."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.rig.script import DONE, Piece, Sleep, Status, done, usage

TEXTS = ("/v1/completions", "/api/generate", "/infill")


def prompt_of(path: str, body: dict[str, Any]) -> str:
    """The words that a request on one of ``TEXTS`` asks to go on from, those that are to follow at the end."""
    prompt = body.get("input_prefix") if path == "/infill" else body.get("prompt")
    suffix = body.get("input_suffix") or body.get("suffix") or ""
    return f"{prompt} {suffix}".rstrip() if not isinstance(prompt, str) or suffix else prompt


def most_of(path: str, body: dict[str, Any], *, llama: bool) -> int | None:
    if path == "/api/generate":
        most = (body.get("options") or {}).get("num_predict")
    else:
        most = body.get("n_predict") if path == "/infill" else body.get("max_tokens", None if llama else 16)
    return most if most is not None and most > 0 else None


def text_pieces(
    path: str, body: dict[str, Any], words: Sequence[str], reason: str, *, llama: bool, delay_s: float
) -> list[Piece]:
    """The answer as its server would send it, streamed or whole as the request asks."""
    prompt = prompt_of(path, body)
    counts = (len(prompt.split()), len(words))
    answers = range(body.get("n") or 1)
    if path == "/v1/completions" and body.get("echo") and not llama:
        words = [prompt, *words]
    if not body.get("stream", path == "/api/generate"):
        return [Sleep(delay_s * counts[1]), Status(200, _whole(path, "".join(words), reason, counts, len(answers)))]
    pieces: list[Piece] = []
    for word in words:
        pieces += [Sleep(delay_s), *(_event(path, word, index) for index in answers)]
    if path == "/api/generate":
        return [*pieces, _generated("") | _done(reason, counts)]
    if path == "/infill":
        return [*pieces, {**_native("", counts), "stop": True, "stop_type": "limit" if reason == "length" else "eos"}]
    pieces += [_completion("", reason, index) for index in answers]
    if (body.get("stream_options") or {}).get("include_usage"):
        pieces.append(usage(counts[0], counts[1] * len(answers)) | {"object": "text_completion"})
    return [*pieces, DONE]


def completion_line(text: str, reason: str | None = None, index: int = 0, **choice: Any) -> bytes:
    """A chunk of a completion's stream, for scripts."""
    return b"data: " + json.dumps(_completion(text, reason, index, **choice)).encode() + b"\n\n"


def generated_line(text: str, **fields: Any) -> bytes:
    """A line of ``/api/generate``, for scripts."""
    return json.dumps(_generated(text) | fields).encode() + b"\n"


def generated_done(reason: str = "stop", *, prompt: int = 7, completion: int = 1) -> bytes:
    return json.dumps(_generated("") | _done(reason, (prompt, completion))).encode() + b"\n"


def _event(path: str, word: str, index: int) -> dict[str, Any]:
    if path == "/api/generate":
        return _generated(word)
    return _native(word, (0, 0)) if path == "/infill" else _completion(word, None, index)


def _completion(text: str, reason: str | None, index: int, **choice: Any) -> dict[str, Any]:
    shown = {"text": text, "index": index, "logprobs": None, "finish_reason": reason, **choice}
    return {"id": "cmpl-s", "object": "text_completion", "created": 1, "model": "m", "choices": [shown]}


def _generated(text: str) -> dict[str, Any]:
    return {"model": "m", "created_at": "2026-11-30T08:00:00.1Z", "response": text, "done": False}


def _native(text: str, counts: tuple[int, int]) -> dict[str, Any]:
    return {
        "index": 0,
        "content": text,
        "stop": False,
        "tokens_evaluated": counts[0],
        "tokens_predicted": counts[1],
    }


def _done(reason: str, counts: tuple[int, int]) -> dict[str, Any]:
    last = done(reason, prompt=counts[0], completion=counts[1])
    return {name: value for name, value in last.items() if name not in ("message", "model", "created_at")}


def _whole(path: str, text: str, reason: str, counts: tuple[int, int], answers: int) -> dict[str, Any]:
    if path == "/api/generate":
        return _generated(text) | _done(reason, counts)
    if path == "/infill":
        return {**_native(text, counts), "stop": True, "stop_type": "limit" if reason == "length" else "eos"}
    choices = [_completion(text, reason, index)["choices"][0] for index in range(answers)]
    return usage(counts[0], counts[1] * answers) | {"object": "text_completion", "choices": choices}

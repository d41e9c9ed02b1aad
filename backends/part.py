"""A part of a prompt: how an engine is asked to read it, and what it says to that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backends.client import Client, decode_json
from backends.failures import early_end, from_payload
from backends.wire import Events, LineTooLongError
from buffer.backend import Kind


def part_of(
    kind: Kind, request: Mapping[str, Any], tokens: Sequence[int], place: Mapping[str, int]
) -> tuple[str, dict[str, Any]]:
    """Path and fields that have these ``tokens`` of the ``request`` read, and nothing said. ``place``: where."""
    fields: dict[str, Any] = {"model": request["model"], "prompt": tokens, "temperature": 0}
    if kind == "vllm":
        fields |= {"max_tokens": 1}
        salt = request.get("cache_salt")
        return "/v1/completions", fields if salt is None else fields | {"cache_salt": salt}
    # As a stream, since of these it notes at once that nobody listens any more.
    fields |= {"n_predict": 0, "cache_prompt": True, "stream": True, "response_fields": ["tokens_cached"]}
    if "lora" in request:
        fields["lora"] = request["lora"]
    return "/completion", {**fields, **place}


def check(client: Client, answer: bytes) -> None:
    """Looks for an error in the answer to a part, whole or streamed. Raises ``BackendError``."""
    events = Events()
    try:
        payloads = [answer] if answer.startswith(b"{") else [*events.feed(answer), *events.flush()]
    except LineTooLongError:
        payloads = []
    if not payloads:
        raise early_end(client.name, "closed the connection before it had read the prompt")
    told = decode_json(client.name, payloads[-1])
    if isinstance(told, dict) and told.get("error"):
        raise client.hushed(from_payload(client.name, told["error"]))

"""A look at an Ollama server: its models, those in memory, and what each can do."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from backends.base import BackendError, Probe
from backends.client import Client, decode_json
from buffer.backend import ModelInfo


class Shown(Struct, frozen=True):
    """What ``/api/show`` tells of a model and the list does not."""

    capabilities: tuple[str, ...] = ()
    context_length: int = 0
    embedding_length: int = 0
    parameter_count: int = 0
    architecture: str = ""


async def probe(client: Client, shown: dict[str, Shown]) -> Probe:
    """``shown``: what was found before, by digest; it grows and shrinks with the models. Raises ``BackendError``."""
    tags = await client.look("/api/tags")
    if tags is None:
        raise BackendError(f"Back end '{client.name}' lists no models; is its address right?", kind="failed")
    entries = _entries(decode_json(client.name, tags.content))
    models = [_model(entry) for entry in entries]
    loaded = await client.look("/api/ps")
    await _show(client, models, shown)
    for model in models:
        known = shown.get(model.digest, Shown())
        model.capabilities = model.capabilities or list(known.capabilities)
        model.context_length = model.context_length or known.context_length
        model.embedding_length = model.embedding_length or known.embedding_length
        model.parameter_count = known.parameter_count
        model.architecture = known.architecture
    return Probe(
        models=models,
        loaded=[_name(entry) for entry in _entries(decode_json(client.name, loaded.content))] if loaded else [],
        simulated=any(entry.get("simulated") is True for entry in entries),
        doublebuffer="x-doublebuffer" in tags.headers,
    )


async def _show(client: Client, models: list[ModelInfo], shown: dict[str, Shown]) -> None:
    """Asks once for each digest. What a slow server does not tell in time is asked for by the next look."""
    for digest in shown.keys() - {model.digest for model in models}:
        del shown[digest]
    try:
        async with asyncio.timeout(client.connect_timeout_s + 1):
            for model in models:
                if model.digest and model.digest not in shown:
                    answer = await client.look("/api/show", {"model": model.id})
                    shown[model.digest] = _shown(decode_json(client.name, answer.content)) if answer else Shown()
    except (TimeoutError, BackendError):
        return


def _shown(told: Any) -> Shown:
    fields: dict[str, Any] = told if isinstance(told, dict) else {}
    given = fields.get("model_info")
    info: dict[str, Any] = given if isinstance(given, dict) else {}
    architecture = _text(info.get("general.architecture"))
    capabilities = fields.get("capabilities")
    return Shown(
        capabilities=tuple(c for c in capabilities if isinstance(c, str)) if isinstance(capabilities, list) else (),
        context_length=_count(info.get(f"{architecture}.context_length")),
        embedding_length=_count(info.get(f"{architecture}.embedding_length")),
        parameter_count=_count(info.get("general.parameter_count")),
        architecture=architecture,
    )


def _entries(told: Any) -> list[dict[str, Any]]:
    found = told.get("models") if isinstance(told, dict) else None
    return [entry for entry in found if isinstance(entry, dict) and _name(entry)] if isinstance(found, list) else []


def _name(entry: dict[str, Any]) -> str:
    return _text(entry.get("model")) or _text(entry.get("name"))


def _model(entry: dict[str, Any]) -> ModelInfo:
    given = entry.get("details")
    details: dict[str, Any] = given if isinstance(given, dict) else {}
    capabilities = entry.get("capabilities")
    return ModelInfo(
        id=_name(entry),
        size=_count(entry.get("size")),
        digest=_text(entry.get("digest")),
        modified_at=_text(entry.get("modified_at")),
        family=_text(details.get("family")),
        parameter_size=_text(details.get("parameter_size")),
        quantization=_text(details.get("quantization_level")),
        format=_text(details.get("format")),
        context_length=_count(details.get("context_length")),
        embedding_length=_count(details.get("embedding_length")),
        capabilities=[c for c in capabilities if isinstance(c, str)] if isinstance(capabilities, list) else [],
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

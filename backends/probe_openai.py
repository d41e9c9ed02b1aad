"""A look at an OpenAI-like server that takes none of its slots: what it serves, how much at once, how busy it is."""

from __future__ import annotations

import asyncio
import math
import re
from typing import Any

import httpx

from backends.base import BackendError, Probe
from backends.client import Client, decode_json
from buffer.backend import Kind, ModelInfo

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SIMULATED_OWNER = "doublebuffer-simulated"


async def probe(client: Client, kind: Kind) -> Probe:
    """Raises ``BackendError``: ``refused`` if it cannot be reached or is loading its model."""
    match kind:
        case "vllm":
            models, metrics, _ = await _looks(client, "/v1/models", "/metrics", "/health")
            return _vllm(_listed(client, models), metrics.text if metrics else "")
        case "llamacpp":
            # Its health is asked first: while it loads, everything else fails too, with less said.
            await client.look("/health")
            models, props, metrics = await _looks(client, "/v1/models", "/props", "/metrics")
            return _llamacpp(_listed(client, models), _object(client, props), metrics.text if metrics else "")
        case _:
            return _listed(client, await client.look("/v1/models"))


async def _looks(client: Client, required: str, *others: str) -> tuple[httpx.Response | None, ...]:
    """The answers to several looks at once. Only the first has to be given; bad health counts too."""
    found = await asyncio.gather(
        client.look(required), *(_optional(client, path) for path in others), return_exceptions=True
    )
    for answer in found:
        if isinstance(answer, BaseException):
            raise answer
    return tuple(answer for answer in found if not isinstance(answer, BaseException))


async def _optional(client: Client, path: str) -> httpx.Response | None:
    try:
        return await client.look(path)
    except BackendError:
        if path == "/health":
            raise
        return None


def _object(client: Client, answer: httpx.Response | None) -> dict[str, Any]:
    told = decode_json(client.name, answer.content) if answer is not None else None
    return told if isinstance(told, dict) else {}


def _listed(client: Client, answer: httpx.Response | None) -> Probe:
    if answer is None:
        raise BackendError(f"Back end '{client.name}' lists no models; is its address right?", kind="failed")
    given = _object(client, answer).get("data")
    data: list[Any] = given if isinstance(given, list) else []
    cards = [card for card in data if isinstance(card, dict) and isinstance(card.get("id"), str)]
    return Probe(
        models=[_model(card) for card in cards],
        simulated=any(card.get("simulated") is True or card.get("owned_by") == SIMULATED_OWNER for card in cards),
        doublebuffer="x-doublebuffer" in answer.headers,
    )


def _model(card: dict[str, Any]) -> ModelInfo:
    told = card.get("meta")
    meta: dict[str, Any] = told if isinstance(told, dict) else {}
    lengths = (card.get("max_model_len"), card.get("context_length"), card.get("max_context_length"), meta.get("n_ctx"))
    return ModelInfo(
        id=card["id"],
        context_length=next((number for length in lengths if (number := _count(length))), 0),
        size=_count(meta.get("size")),
        parameter_count=_count(meta.get("n_params")),
        embedding_length=_count(meta.get("n_embd")),
    )


def _vllm(found: Probe, metrics: str) -> Probe:
    found.waiting = _total(metrics, "vllm:num_requests_waiting")
    found.running = _total(metrics, "vllm:num_requests_running")
    for name, labels, _ in _samples(metrics):
        if name == "vllm:cache_config_info":
            if "enable_prefix_caching" in labels:
                found.prefix_caching = labels["enable_prefix_caching"] == "True" and found.prefix_caching is not False
            blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
            if blocks.isdigit() and size.isdigit() and int(blocks) * int(size) > 0:
                # One row for each engine behind the same address.
                found.kv_tokens = (found.kv_tokens or 0) + int(blocks) * int(size)
    return found


def _llamacpp(found: Probe, props: dict[str, Any], metrics: str) -> Probe:
    found.slots = _count(props.get("total_slots")) or None
    found.running = _total(metrics, "llamacpp:requests_processing")
    found.waiting = _total(metrics, "llamacpp:requests_deferred")
    settings = props.get("default_generation_settings")
    context = _count(settings.get("n_ctx")) if isinstance(settings, dict) else 0
    capabilities = _capabilities(props)
    for model in found.models:
        model.context_length = context or model.context_length
        model.capabilities = capabilities
        model.format = "gguf"
    return found


def _capabilities(props: dict[str, Any]) -> list[str]:
    """Read off the chat template and the projectors that are loaded; empty if the server shows neither."""
    template = props.get("chat_template")
    if not isinstance(template, str) or not template:
        return []
    modalities = props.get("modalities")
    senses: dict[str, Any] = modalities if isinstance(modalities, dict) else {}
    found = {
        "completion": True,
        "tools": bool(re.search(r"\btools\b", template)),
        "thinking": bool(re.search(r"enable_thinking|<think>|reasoning_effort|reasoning_content", template)),
        "vision": senses.get("vision") is True,
        "audio": senses.get("audio") is True,
    }
    return [name for name, has in found.items() if has]


def _samples(metrics: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each line of Prometheus' text form that has a number."""
    samples = []
    for name, labels, value in _SAMPLE.findall(metrics):
        try:
            samples.append((name, dict(_LABEL.findall(labels)), float(value)))
        except ValueError:
            continue
    return samples


def _total(metrics: str, name: str) -> int | None:
    """The sum over all engines and models; None if it is not told."""
    values = [value for found, _, value in _samples(metrics) if found == name and math.isfinite(value)]
    return round(sum(values)) if values else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

"""What really listens at an address: an engine, which one, or something else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from buffer.backend import BackendSpec

TITLES = {"ollama": "Ollama", "vllm": "vLLM", "llamacpp": "llama.cpp", "openai": "an OpenAI-like server"}
_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Identity:
    """``kind``: of ``BackendSpec``, ``doublebuffer``, or empty: none of these. ``shown``: what it says of itself."""

    kind: str
    shown: str = ""


async def identify(spec: BackendSpec, url: str) -> Identity | None:
    """None: nothing there speaks HTTP."""
    headers = {"authorization": f"Bearer {spec.api_key}"} if spec.api_key else {}
    async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, headers=headers) as client:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(_get(client, url + path)) for path in ("/api/version", "/v1/models", "/")]
        version, models, root = (task.result() for task in asked)
    answers = [answer for answer in (version, models, root) if answer is not None]
    if not answers:
        return None
    if any("x-doublebuffer" in answer.headers for answer in answers):
        return Identity("doublebuffer")
    if _has(version, "version"):
        return Identity("ollama")
    owners = {entry.get("owned_by") for entry in _entries(models)}
    if kind := next((kind for kind in ("vllm", "llamacpp") if kind in owners), ""):
        return Identity(kind)
    if _entries(models):
        return Identity("openai")
    last = root if root is not None else answers[-1]
    shown = last.headers.get("server", "")[:40]
    return Identity("", "".join(letter for letter in shown if letter.isprintable()))


def roots(url: str) -> str:
    """The address without any path."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))


async def _get(client: httpx.AsyncClient, url: str) -> httpx.Response | None:
    try:
        return await client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL):
        return None


def _json(answer: httpx.Response | None) -> Any:
    if answer is None or answer.status_code != 200:
        return None
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


def _has(answer: httpx.Response | None, name: str) -> bool:
    told = _json(answer)
    return isinstance(told, dict) and isinstance(told.get(name), str)


def _entries(answer: httpx.Response | None) -> list[dict[str, Any]]:
    told = _json(answer)
    data = told.get("data") if isinstance(told, dict) else None
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []

"""Engines that run on this machine without anybody having configured them.

Only the three usual ports of the loopback address are asked, and only what says itself what it is counts: whatever else
listens on port 8000 is left alone, and so is another Doublebuffer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from buffer.backend import BackendSpec, Kind

log = logging.getLogger("doublebuffer.discovery")

LOOK_TIMEOUT_S = 1.0
LOOK_EVERY_S = 1.5


@dataclass(frozen=True, slots=True)
class Place:
    """Where an engine listens if nobody told it otherwise, and what tells that it is the one."""

    kind: Kind
    title: str
    url: str
    path: str


PLACES: tuple[Place, ...] = (
    Place("ollama", "Ollama", "http://127.0.0.1:11434", "/api/version"),
    Place("vllm", "vLLM", "http://127.0.0.1:8000", "/v1/models"),
    Place("llamacpp", "llama.cpp", "http://127.0.0.1:8080", "/v1/models"),
)


async def discover(places: Sequence[Place] = PLACES) -> list[BackendSpec]:
    """The engines that answer now; takes at most ``LOOK_TIMEOUT_S`` or so."""
    async with _client() as client:
        return await _look(client, places)


async def appears(stop: asyncio.Event, places: Sequence[Place] = PLACES) -> list[BackendSpec]:
    """Looks again and again until an engine answers; an empty list once ``stop`` is set."""
    async with _client() as client:
        while not stop.is_set():
            if found := await _look(client, places):
                return found
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await stop.wait()
            except TimeoutError:
                continue
    return []


def _client() -> httpx.AsyncClient:
    """Plain HTTP on this machine: without certificates to load it costs next to nothing."""
    return httpx.AsyncClient(timeout=LOOK_TIMEOUT_S, trust_env=False, verify=False)


async def _look(client: httpx.AsyncClient, places: Sequence[Place]) -> list[BackendSpec]:
    async with asyncio.TaskGroup() as group:
        looks = [group.create_task(_is_there(client, place)) for place in places]
    found = [place for place, look in zip(places, looks, strict=True) if look.result()]
    return [BackendSpec(name=place.kind, kind=place.kind, url=place.url) for place in found]


async def _is_there(client: httpx.AsyncClient, place: Place) -> bool:
    try:
        answer = await client.get(place.url + place.path)
        body = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return False
    if "x-doublebuffer" in answer.headers:
        log.info("%s is Doublebuffer, not %s: left alone", place.url, place.title)
        return False
    if not isinstance(body, dict):
        return False
    if place.kind == "ollama":
        return isinstance(body.get("version"), str)
    return any(place.kind == owner for owner in _owners(body))


def _owners(models: dict[str, object]) -> list[object]:
    data = models.get("data")
    if not isinstance(data, list):
        return []
    return [entry.get("owned_by") for entry in data if isinstance(entry, dict)]

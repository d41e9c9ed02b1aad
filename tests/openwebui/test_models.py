"""Models that an administrator has come and go in Open WebUI, at an Ollama behind the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Any

import httpx
import pytest

from tests.openwebui.api import Api
from tests.openwebui.front import PREFIX
from tests.openwebui.installation import within
from tests.openwebui.scripted import Bench
from tests.rig.script import Wait

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

NEW = "newcomer:latest"
BOTH = {NEW, f"{PREFIX}.{NEW}"}


CACHED_S = 3.0
"""Open WebUI keeps a list for a second."""


async def offers(api: Api, names: set[str], but: Set[str] = frozenset()) -> bool:
    """Whether Open WebUI lists the names, and none of the others."""
    found = set(await api.models())
    return found >= names and not found & but


async def served(bench: Bench) -> set[str]:
    """The names that the gateway lists by both APIs."""
    async with httpx.AsyncClient(base_url=bench.site.url, trust_env=False) as gateway:
        tags = (await gateway.get("/api/tags")).json()["models"]
        cards = (await gateway.get("/v1/models")).json()["data"]
    return {entry["name"] for entry in tags} & {card["id"] for card in cards}


async def test_a_model_is_pulled_used_and_deleted(bench: Bench, bench_api: Api) -> None:
    engine = bench.engines["ollama"]
    on = asyncio.Event()
    engine.shelf.held = [Wait(on)]
    assert await offers(bench_api, set(), but=BOTH)

    def seen(line: dict[str, Any]) -> None:
        if line.get("completed") == 40:
            on.set()  # the pull goes on only when Open WebUI has told how far it is

    lines = await bench_api.pulled(NEW, seen)
    assert lines[0]["status"] == "pulling manifest"
    assert [line["completed"] for line in lines if "completed" in line] == [40, 100]
    assert lines[-1] == {"status": "success"}
    assert await served(bench) >= {NEW}
    await within(CACHED_S, lambda: offers(bench_api, BOTH))
    for name in BOTH:
        assert (await bench_api.ask(name, "What does the harbor do?")).status_code == 200
    assert [request.json()["model"] for request in engine.requests] == [NEW, NEW]
    assert (await bench_api.deleted(NEW)).status_code == 200
    assert NEW not in engine.shelf.models
    assert NEW not in await served(bench)
    await within(CACHED_S, lambda: offers(bench_api, set(), but=BOTH))


async def test_a_model_that_there_is_none_of(bench: Bench, bench_api: Api) -> None:
    before = await served(bench)
    lines = await bench_api.pulled("no-such", lambda line: None)
    assert "file does not exist" in lines[-1]["error"]
    assert await served(bench) == before

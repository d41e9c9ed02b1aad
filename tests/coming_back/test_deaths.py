"""Gateways and workers that are killed while a client that may leave is away, or reads elsewhere."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.coming_back.installation import (
    MODEL,
    TEXT,
    Installation,
    installation,
    kill,
    numbers,
    said,
)
from tests.coming_back.rig import DETACH, Event, Reader, events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CHAT = "/v1/chat/completions"
KEY = {"Idempotency-Key": "one-key"}


def asked(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "count"}], **more}


async def leaves_at(site: Installation, gateway: int, word: int) -> str:
    """Asks for an answer, reads some of it, and goes; the request's id."""
    async with (
        site.client(gateway) as client,
        client.stream("POST", CHAT, json=asked(), headers=DETACH) as response,
    ):
        await numbers(Reader(response), word)
        return str(response.headers["x-doublebuffer-id"])


async def ended(site: Installation, gateway: int, id: str) -> dict[str, Any]:
    """How a request stands once it has ended, which has to be with an answer."""
    async with site.client(gateway) as client, asyncio.timeout(60):
        while (found := (await client.get(f"/v1/requests/{id}")).json())["state"] in ("waiting", "running"):
            await asyncio.sleep(0.05)
    assert found["state"] == "done", found
    return dict(found)


async def read(site: Installation, gateway: int, id: str, after: str = "") -> list[Event]:
    headers = {"Last-Event-ID": after} if after else {}
    async with site.client(gateway) as client:
        response = await client.get(f"/v1/requests/{id}/stream", headers=headers)
        assert response.status_code == 200, response.text
        return events(response.text)


def assert_unbroken(heard: list[Event]) -> None:
    assert said(heard) == TEXT
    assert [event.data for event in heard].count("[DONE]") == 1


async def test_its_gateway_is_killed_and_then_its_worker() -> None:
    """The answer is the same unbroken one for who reads it live elsewhere, comes back in the middle, or later."""
    async with installation() as site:
        id = await leaves_at(site, 0, 5)
        kill(site.gateways[0])
        async with site.client(1) as client, client.stream("GET", f"/v1/requests/{id}/stream") as response:
            reader = Reader(response)
            heard = await numbers(reader, 12)
            kill(await site.worker_of(id))
            heard += await reader.rest(within_s=40)
        assert_unbroken(heard)
        found = await ended(site, 1, id)
        assert found["takeovers"] == found["attempts"] - 1 == len(site.engine.requests) - 1 > 0
        assert found["timeline"]["arrival"] < found["timeline"]["first_token"] < found["timeline"]["ended"]
        assert_unbroken(await read(site, 1, id))
        for place in (3, 12, 20, len(heard) - 2):
            assert_unbroken(heard[:place] + await read(site, 1, id, heard[place - 1].id))


async def test_its_worker_is_killed_while_it_is_away() -> None:
    async with installation() as site:
        id = await leaves_at(site, 0, 5)
        kill(await site.worker_of(id))
        assert (await ended(site, 1, id))["takeovers"] > 0
        assert_unbroken(await read(site, 1, id))
        # And the gateway is stopped: it does not wait for those that nobody waits for, and they go on.
        id = await leaves_at(site, 0, 5)
        began_at = time.monotonic()
        assert await site.gateways[0].stop() == 0
        assert time.monotonic() - began_at < 10
        await ended(site, 1, id)
        assert_unbroken(await read(site, 1, id))


async def test_its_gateway_is_killed_and_it_sends_its_key_again() -> None:
    """It joins what runs: the engine is asked once."""
    async with installation() as site:
        async with site.client(0) as client, client.stream("POST", CHAT, json=asked(), headers=KEY) as response:
            id = response.headers["x-doublebuffer-id"]
            reader = Reader(response)
            await numbers(reader, 5)
            kill(site.gateways[0])
            with pytest.raises(httpx.RemoteProtocolError):
                await reader.rest()
        async with site.client(1) as client:
            again = await client.post(CHAT, json=asked(), headers=KEY)
            assert again.headers["x-doublebuffer-id"] == id
            assert_unbroken(events(again.text))
            whole = await client.post(CHAT, json=asked(stream=False), headers=KEY)
            assert whole.status_code == 422
        assert len(site.engine.requests) == 1
        assert await site.gateways[1].stop() == 0

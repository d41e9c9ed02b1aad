"""The title of a chat, which Open WebUI asks for ahead of the chat, is written after its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.delivery import Timing
from gateway.titles import Titles
from tests.gateway.rig import MODEL, Wire, ollama, rig

TITLE: dict[str, Any] = {
    "model": MODEL,
    "stream": False,
    "messages": [{"role": "user", "content": "### Task:\nGenerate a concise title\n..."}],
}


async def test_it_is_submitted_when_its_chat_has_been_answered() -> None:
    async with rig(timing=Timing(title_least_s=0.05)) as r, asyncio.TaskGroup() as group:
        title = group.create_task(r.client.post("/api/chat", json=TITLE))
        chat = group.create_task(r.client.post("/api/chat", json=ollama()))
        job = await r.hands.take()
        assert job.lane == "fast"
        r.hands.say(job, "hi")
        await asyncio.sleep(0.1)
        assert (await r.lanes.depths())["background"].waiting == 0
        await r.hands.end(job)
        assert (await r.hands.answer("A title")).lane == "background"
        assert (await title).json()["message"]["content"] == "A title"
        await chat


async def test_without_a_chat_it_goes_on_after_a_moment() -> None:
    async with rig(timing=Timing(title_least_s=0.01)) as r, asyncio.TaskGroup() as group:
        title = group.create_task(r.client.post("/api/chat", json=TITLE))
        await r.hands.answer("A title")
        assert (await title).status_code == 200


async def test_its_client_may_leave_meanwhile() -> None:
    async with rig(timing=Timing(title_least_s=30)) as r:
        wire = await Wire.post(r.port, "/api/chat", TITLE)
        await wire.leave()
        await r.counted("ollama", "background", "cancelled")


@pytest.mark.parametrize("other", ["u", "v"])
async def test_only_chats_of_its_user_and_of_its_time_count(other: str) -> None:
    titles = Titles(0.01, 30)
    with titles.chat("u"):
        waiting = asyncio.ensure_future(titles.wait("u"))
        await asyncio.sleep(0.03)
        assert not waiting.done()
        later = titles.chat(other)
        later.__enter__()
    await asyncio.wait_for(waiting, 5)
    later.__exit__(None, None, None)
    assert not titles._open


async def test_it_waits_a_minute_at_most() -> None:
    titles = Titles(0.0, 0.02)
    with titles.chat("u"):
        await asyncio.wait_for(titles.wait("u"), 5)

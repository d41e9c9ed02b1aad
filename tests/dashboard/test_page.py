"""The page in a real Chromium: under load, empty, with dead engines, without Redis, on a phone, in the dark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from buffer.backend import ModelInfo
from buffer.job import Content
from buffer.load import publish_state
from buffer.store import open_store
from gateway.app import create_app
from tests.dashboard.chromium import Browser
from tests.dashboard.page_rig import CONTRAST, LIVE, opened
from tests.gateway.rig import Rig, ollama, rig, served
from tests.rig.redis_server import run_redis

pytestmark = [pytest.mark.debian, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(90)]


async def busy(r: Rig, group: asyncio.TaskGroup) -> list[asyncio.Task[Any]]:
    """Three chats under way, nine that wait."""
    asked = [group.create_task(r.client.post("/api/chat", json=ollama(stream=False))) for _ in range(12)]
    await r.hands.take(3)
    r.hands.say(r.hands.granted[0], Content("one"))
    await r.waiting(9)
    return asked


async def test_under_load(browser: Browser, pictures: Path) -> None:
    async with rig() as r, browser.page() as page, asyncio.TaskGroup() as group:
        asked = await busy(r, group)
        await opened(page, r.url)
        await page.until("document.querySelector('#lanes tr:nth-child(2) b').textContent === '9'")
        assert "9 wait" in await page.text("#says")
        assert await page.run("document.querySelectorAll('.engine .cells i.on').length") == 3
        meter = await page.run("[...document.querySelector('[role=meter]').attributes].map((it) => it.value).join()")
        assert "3 of 8" in meter
        assert "idle" not in await page.text(".engine")
        # One under way is chosen by keyboard alone, and shows its timeline.
        await page.focus("#under-way button")
        await page.press("Enter")
        await page.until("document.querySelectorAll('#timeline .stretch i').length >= 2")
        assert "Under way for" in await page.text("#timeline")
        assert "Hello" not in await page.text()
        await page.picture(pictures / "load.png")
        for scheme in ("light", "dark"):
            await page.scheme(scheme)
            assert await page.run(CONTRAST) == []
        await page.picture(pictures / "load-dark.png")
        assert page.complaints == []
        for job in r.hands.granted:
            await r.hands.end(job)
        for _ in range(9):
            await r.hands.answer("two")
        await asyncio.gather(*asked)
        await page.until("document.querySelector('#timeline').innerText.includes('Answered in')")


async def test_on_a_phone_nothing_is_wider_than_it(browser: Browser, pictures: Path) -> None:
    async with rig() as r, browser.page() as page:
        long = "a-very-long-name-of-an-engine-in-the-cellar-" * 3
        await r.hands.show(r.hands.state(name=long, error="An_error_without_any_space" * 9, up=False))
        await r.hands.show()
        await opened(page, r.url)
        for width in (320, 390):
            await page.size(width, 800, mobile=True, scale=2)
            await page.until("innerWidth === document.documentElement.clientWidth")
            assert await page.run("document.documentElement.scrollWidth") == width
        await page.picture(pictures / "phone.png")


async def test_before_anything_is_there(browser: Browser, pictures: Path) -> None:
    async with rig(show=False) as r, browser.page() as page:
        await opened(page, r.url, scheme="dark")
        assert await page.text("#says") == "No worker is running, so nothing is answered."
        assert "None is known yet" in await page.text("#engines")
        assert await page.run(CONTRAST) == []
        await page.picture(pictures / "nothing.png")
        await r.hands.show()
        await page.until("document.querySelectorAll('.engine').length === 1")
        assert "None is known yet" not in await page.text("#engines")
        assert page.complaints == []


async def test_dead_engines_come_first_with_their_reason(browser: Browser, pictures: Path) -> None:
    async with rig() as r, browser.page() as page:
        await r.hands.show(r.hands.state(name="old", up=False, error="Back end 'old' cannot be reached."))
        await r.hands.show(r.hands.state(name="flaky", breaker_open=True))
        await r.hands.show(r.hands.state(name="guest", up=False, spare="stopped"))
        await opened(page, r.url)
        await page.until("document.querySelectorAll('.engine').length === 4")
        names = await page.run("[...document.querySelectorAll('.engine h3')].map((it) => it.textContent)")
        assert names == ["old", "flaky", "engine", "guest"]
        assert "Back end 'old' cannot be reached." in await page.text(".engine[data-state=down]")
        assert await page.text("#says") == "3 of 4 back ends can be reached. Nobody waits."
        assert await page.run("document.title[0]") == "!"
        for scheme in ("light", "dark"):
            await page.scheme(scheme)
            assert await page.run(CONTRAST) == []
        await page.picture(pictures / "dead.png")


async def test_twenty_engines_and_hundreds_of_models(browser: Browser, pictures: Path) -> None:
    async with rig() as r, browser.page() as page:
        models = [ModelInfo(f"model-{i:03}:14b") for i in range(300)]
        for i in range(20):
            state = r.hands.state(
                name=f"rack-{i:02}", models=models, loaded=["model-007:14b"], limit=64, kv_tokens=90_000
            )
            await publish_state(r.store, r.lanes.keys, state, 60)
        await opened(page, r.url)
        await page.until("document.querySelectorAll('.engine').length === 21")
        card = ".engine:nth-child(2)"
        assert "300 models, 1 in memory" in await page.text(card)
        # What somebody has opened stays open, whatever comes in.
        await page.run(f"document.querySelector('{card} summary').click()")
        asked = len(page.asked)
        await page.until("true")
        while len(page.asked) < asked + 2:
            await asyncio.sleep(0.05)
        assert await page.run(f"document.querySelector('{card} details').open")
        assert "and 240 more" in await page.text(f"{card} li:last-child")
        assert await page.run(f"document.querySelector('{card} li').textContent") == "model-007:14b"
        assert await page.run(f"document.querySelector('{card}').getBoundingClientRect().height") < 500
        await page.picture(pictures / "many.png")


async def test_without_redis_the_last_look_stands_and_says_so(browser: Browser, pictures: Path) -> None:
    from buffer.settings import Settings

    with run_redis() as server:
        store = await open_store(server.url)
        async with served(create_app(Settings(), store)) as port, browser.page() as page:
            await opened(page, f"http://127.0.0.1:{port}")
            server.stop()
            await page.until("document.body.classList.contains('stale')")
            assert (await page.text("#says")).startswith("Redis ")
            assert "as it was" in await page.text("#beat")
            await page.picture(pictures / "away.png")
            server.start()
            await page.until(LIVE)
            assert "stale" not in await page.run("document.body.className")
        await store.aclose()


async def test_a_gateway_that_is_gone_is_missed(browser: Browser) -> None:
    async with browser.page() as page:
        async with rig() as r:
            await opened(page, r.url)
        await page.until("document.getElementById('says').textContent === 'The gateway does not answer.'")
        assert "as it was" in await page.text("#beat")


async def test_a_page_that_nobody_sees_asks_for_nothing(browser: Browser) -> None:
    async with rig() as r, browser.page() as page:
        await opened(page, r.url)
        hide = "Object.defineProperty(document, 'visibilityState', { get: () => '%s', configurable: true });"
        event = "document.dispatchEvent(new Event('visibilitychange'))"
        await page.run(hide % "hidden" + event)
        await page.until("document.getElementById('beat-text').textContent === 'paused'")
        before = len(page.asked)
        await asyncio.sleep(1.5)
        assert len(page.asked) == before
        await page.run(hide % "visible" + event)
        await page.until(LIVE)
        assert len(page.asked) > before

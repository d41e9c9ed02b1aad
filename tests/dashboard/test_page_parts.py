"""The page in a real Chromium: its sign-in, its plots, and the cache where there is one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from buffer.keys import counted
from buffer.recent import last_slot
from buffer.setting_values import ApiKey
from tests.dashboard.chromium import Browser
from tests.dashboard.page_rig import CONTRAST, LIVE, opened
from tests.gateway.rig import Rig, rig

pytestmark = [pytest.mark.debian, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(90)]


async def test_signing_in_and_out(browser: Browser, pictures: Path) -> None:
    async with (
        rig(api_keys=[ApiKey(name="ann", key="k-ann"), ApiKey(name="bob", key="k-bob")]) as r,
        browser.page() as page,
    ):
        await page.size(1280)
        await page.open(f"{r.url}/dashboard")
        await page.picture(pictures / "sign-in.png")
        assert await page.run(CONTRAST) == []
        await page.type("wrong")
        await page.press("Enter")
        await page.until("document.querySelector('#why')?.textContent === 'Nobody has this key.'")
        await page.type("k-ann")
        await page.press("Enter")
        await page.until(LIVE)
        assert "ann" in await page.text("#sign-out")
        assert await page.run("document.cookie") == ""
        assert not any("k-ann" in url for url in page.asked)
        await page.run("document.querySelector('#sign-out button').click()")
        await page.until("document.querySelector('#key') !== null")


async def test_a_plot_can_be_read_by_keyboard(browser: Browser) -> None:
    async with rig() as r, browser.page() as page:
        for _ in range(3):
            r.telemetry.recent.said("engine", 50)
        await opened(page, r.url)
        await page.run("document.querySelectorAll('.tile svg')[2].focus()")
        await page.press("ArrowLeft")
        read = "document.querySelectorAll('.tile')[2].querySelector('.ends span').textContent"
        await page.until(f"{read}.includes('per second')")
        label = await page.run("document.querySelectorAll('.tile svg')[2].getAttribute('aria-label')")
        assert label.startswith("Tokens per second over ten minutes")


async def counts(r: Rig, **found: int) -> None:
    """What the cache had, some seconds ago."""
    slot = last_slot(time.time()) - 1
    for name, count in found.items():
        await r.store.redis.hincrby(counted(r.store.prefix, slot), f"cache:{name}", count)


TILES = (
    "[...document.querySelectorAll('.tile')].filter((it) => !it.hidden).map((it) => it.querySelector('h2').textContent)"
)
CACHE = "document.querySelector('.tile:nth-child(5)')"


async def test_without_a_cache_there_is_no_tile_for_it(browser: Browser) -> None:
    async with rig() as r, browser.page() as page:
        await opened(page, r.url)
        assert await page.run(TILES) == ["First word", "Waiting", "Tokens per second", "Batches"]
        # Another gateway on the same store may have one.
        await counts(r, hit=1, miss=1)
        await page.until(f"{TILES}.length === 5")


async def test_what_the_cache_has_spared(browser: Browser, pictures: Path) -> None:
    async with rig(cache=True) as r, browser.page() as page:
        await opened(page, r.url)
        assert (await page.run(TILES))[-1] == "Answer cache"
        assert "nobody asked in 5 min" in await page.run(f"{CACHE}.innerText")
        await counts(r, hit=30, joined=12, miss=58, bypass=900)
        await page.until(f"{CACHE}.innerText.includes('42')")
        assert "of 100 in 5 min needed no engine" in await page.run(f"{CACHE}.innerText")
        assert "42 % in the last five" in await page.run(f"{CACHE}.querySelector('svg').getAttribute('aria-label')")
        for width in (320, 390, 700, 900, 1280):
            await page.size(width, 800, mobile=width < 500)
            await page.until("innerWidth === document.documentElement.clientWidth")
            assert await page.run("document.documentElement.scrollWidth") == width
            tops = await page.run("[...document.querySelectorAll('.tile')].map((it) => it.getBoundingClientRect().top)")
            assert len(set(tops)) == (3 if width < 860 else 1)
        for scheme in ("light", "dark"):
            await page.scheme(scheme)
            assert await page.run(CONTRAST) == []
            await page.picture(pictures / f"cache-{scheme}.png")
        await page.size(390, 800, mobile=True, scale=2)
        await page.picture(pictures / "cache-phone.png")
        assert page.complaints == []

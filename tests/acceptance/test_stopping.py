"""A gateway that is told to stop while clients still wait."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.acceptance.crowd import Answer, Ask, ask
from tests.acceptance.site import backends_of, run_engines, run_site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

WORDS = 2000


async def test_who_still_waits_is_told_and_no_engine_works_on() -> None:
    settings = {"DOUBLEBUFFER_DRAIN_SECONDS": "1"}
    chats = [
        Ask(api, "m-vllm", f"marker:m{i} words:{WORDS}", stream, False)
        for i, (api, stream) in enumerate([(a, s) for a in ("openai", "ollama") for s in (True, False)] * 2)
    ]
    async with run_engines(delay_s=0.05, kinds=["vllm"]) as engines:
        engine = engines["vllm"]
        async with run_site(backends_of(engines, max_in_flight=4), settings=settings) as site:
            async with httpx.AsyncClient(base_url=site.url, timeout=30) as client:
                tasks = [asyncio.create_task(ask(client, chat)) for chat in chats]
                await engine.received(4)
                stopped = asyncio.create_task(site.gateway.stop())
                answers: list[Answer] = await asyncio.gather(*tasks)
            assert await stopped == 0
            for chat, got in zip(chats, answers, strict=True):
                assert "being stopped" in got.error, got
                assert not got.ended
                if not chat.stream:
                    assert got.status == 503
                    assert int(got.headers["retry-after"]) >= 1
                    assert got.headers["content-type"].startswith("application/json")
            async with asyncio.timeout(15):
                await asyncio.gather(*(request.closed.wait() for request in engine.requests))
            assert len(engine.requests) == 4
            assert await site.leftovers() == []
            assert "Traceback" not in site.gateway.log

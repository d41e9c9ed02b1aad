"""A thousand chats at once, on Redis with two workers: every answer whole and its own, and nothing left behind."""

from __future__ import annotations

import asyncio

import pytest

from tests.acceptance.crowd import Answer, Ask, ask, asks, crowd, faults
from tests.acceptance.site import KINDS, backends_of, run_engines, run_site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


async def test_every_answer_is_whole_and_its_own() -> None:
    what = asks(1000, [f"m-{kind}" for kind in KINDS])
    async with run_engines() as engines, run_site(backends_of(engines)) as site:
        answers = await crowd(site.url, what, timeout_s=120)
        assert not faults(what, answers)
        assert sum(len(engine.requests) for engine in engines.values()) == 1000
        assert await site.leftovers() == []
        metrics = await site.metrics()
        ok = {k: v for k, v in metrics.items() if k.startswith("doublebuffer_requests_total") and 'outcome="ok"' in k}
        assert sum(ok.values()) == 1000
        assert site.complaints() == []


async def test_a_killed_worker_costs_nobody_an_answer_without_a_word() -> None:
    what = asks(400, [f"m-{kind}" for kind in KINDS], seed=1, words=(5, 20))
    # Where the machine has much else to do, a crowd may be refused at the door for its wait; that is told elsewhere.
    settings = {"DOUBLEBUFFER_LEASE_SECONDS": "2", "DOUBLEBUFFER_REFUSE_WAIT_SECONDS": "600"}
    async with run_engines(delay_s=0.02) as engines, run_site(backends_of(engines), settings=settings) as site:
        async with asyncio.TaskGroup() as group:
            chats = group.create_task(crowd(site.url, what, timeout_s=120))
            async with asyncio.timeout(30):
                while sum(len(engine.requests) for engine in engines.values()) < 100:
                    await asyncio.sleep(0.01)
            site.workers[0].kill()
        answers = chats.result()
        assert not faults(what, answers, errors_allowed=True)
        interrupted = [a for a in answers if a.error]
        whole = [a for asked, a in zip(what, answers, strict=True) if not asked.stream]
        assert [f"{a.status} {a.error} ({a.lane}, after {a.took_s:.1f} s)" for a in whole if a.error] == []
        assert all(a.content or a.thinking for a in interrupted if a.status == 200), "an error without need"
        assert len(interrupted) <= 64
        assert len([a for a in answers if not a.error]) >= 300
        site.workers.pop(0)
        assert await site.leftovers(within_s=15) == []


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_a_client_that_leaves_frees_the_engine_within_a_second(api: str, stream: bool) -> None:
    import httpx

    async with run_engines(delay_s=0.05) as engines:
        backends = backends_of(engines, max_in_flight=1)
        async with run_site(backends) as site, httpx.AsyncClient(base_url=site.url, timeout=60) as client:
            for kind, engine in engines.items():

                def chat(marker: str, words: int, kind: str = kind) -> Ask:
                    return Ask(api, f"m-{kind}", f"marker:{marker} words:{words}", stream, False)

                running = asyncio.create_task(ask(client, chat("running", 1000)))
                request = await engine.received(1)
                queued = asyncio.create_task(ask(client, chat("queued", 1)))
                after = asyncio.create_task(ask(client, chat("after", 2)))
                waiting = 'doublebuffer_queue_depth{lane="fast"}'
                async with asyncio.timeout(5):
                    while (await site.metrics()).get(waiting) != 2.0:
                        await asyncio.sleep(0.02)
                for gone in (queued, running):
                    gone.cancel()
                await asyncio.wait({queued, running})
                await asyncio.wait_for(request.closed.wait(), 1.0)
                got: Answer = await asyncio.wait_for(after, 10)
                assert got.content == "after 1 2"
                assert [b"queued" in r.body for r in engine.requests] == [False, False]
            assert await site.leftovers() == []
            assert site.complaints() == []

"""Who goes next, seen from outside: the order in which an engine that was full gets what waited."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from tests.acceptance.crowd import Ask, ask
from tests.acceptance.site import backends_of, run_engines, run_site
from tests.rig.script import DONE, Wait, finish, role

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

LONG = "x" * 2500


def chat(name: str, *, think: bool = False, text: str = "") -> Ask:
    return Ask("openai", "m-vllm", f"marker:{name} words:1 {text}", True, think)


@pytest.mark.parametrize("workers", [1, 4])
async def test_what_waited_comes_out_thinking_then_fast_then_slow(workers: int) -> None:
    async with run_engines(kinds=["vllm"]) as engines:
        engine = engines["vllm"]
        go = asyncio.Event()
        engine.once.append([role(), "busy", Wait(go), finish(), DONE])
        backends = backends_of(engines, max_in_flight=1)
        # So long a bound on passing over that the order does not hang on how fast this machine sends twelve requests.
        settings = {"DOUBLEBUFFER_MAX_WAIT_SECONDS": "600"}
        async with (
            run_site(backends, workers=workers, settings=settings) as site,
            httpx.AsyncClient(base_url=site.url, timeout=60) as client,
        ):
            first = asyncio.create_task(ask(client, chat("first")))
            await engine.received(1)
            tasks = []
            mixed = [chat(f"slow-{i}", text=LONG) for i in range(4)]
            for i in range(4):
                mixed[3 * i : 3 * i] = [chat(f"fast-{i}"), chat(f"thinking-{i}", think=True)]
            for n, what in enumerate(mixed, 1):
                tasks.append(asyncio.create_task(ask(client, what)))
                async with asyncio.timeout(5):
                    while await waiting(site) != n:
                        await asyncio.sleep(0.01)
            go.set()
            answers = [await task for task in tasks]
            await first
        came = [re.search(r"marker:(\w+)-(\d)", r.body.decode()) for r in engine.requests[1:]]
        order = [(m[1], int(m[2])) for m in came if m]
        assert order == [(lane, i) for lane in ("thinking", "fast", "slow") for i in range(4)]
        lanes = {what.prompt.split()[0]: got.lane for what, got in zip(mixed, answers, strict=True)}
        assert {name: re.sub(r"marker:|-\d", "", name) for name in lanes} == lanes


async def waiting(site) -> float:  # type: ignore[no-untyped-def]
    metrics = await site.metrics()
    return sum(v for k, v in metrics.items() if k.startswith("doublebuffer_queue_depth"))


@pytest.mark.parametrize(("policy", "least_s", "most_s"), [("adaptive", 0.0, 0.35), ("fixed", 0.4, 2.0)])
async def test_an_idle_engine_waits_for_the_window_only_where_it_is_fixed(
    policy: str, least_s: float, most_s: float
) -> None:
    """A window of 400 ms, so that the difference is none of this machine's moods."""
    settings = {"DOUBLEBUFFER_WINDOW_MS": "400", "DOUBLEBUFFER_WINDOW_POLICY": policy}
    async with (
        run_engines(kinds=["vllm"]) as engines,
        run_site(backends_of(engines), settings=settings) as site,
        httpx.AsyncClient(base_url=site.url, timeout=60) as client,
    ):
        firsts = sorted([(await ask(client, chat(f"a-{i}"))).first_s for i in range(5)])
        assert least_s <= firsts[2] <= most_s, firsts
        metrics = await site.metrics()
        assert metrics['doublebuffer_queue_wait_seconds_count{lane="fast"}'] == 5

"""H32: a steady flow of jobs that go first does not keep the others waiting without end.

Here everything is ten times as fast as in the case, and half as long; H32_SCALE=1 plays it as it is, a minute for
each."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from tests.cases.rig import OAI, Bench, run_bench, settings
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Sleep, answer

SCALE = float(os.environ.get("H32_SCALE", "0.1"))
MAX_WAIT_S, JOB_S = 10.0, 0.5
PLAY_S = 60.0 if SCALE == 1 else 30.0
WAITING = 4
AT_S = (5.0, 15.0, 25.0)
FREE_S = 0.1 if SCALE == 1 else 0.5
"""How long a job may be on its way to an engine that is free; here beside all other tests."""

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    more = settings(max_wait_seconds=str(MAX_WAIT_S * SCALE), max_in_flight="1")
    async with run_bench(more=more) as found:
        yield found


@dataclass
class Flow:
    """Thinking jobs, four of which wait at any time, and others between."""

    bench: Bench
    sent: dict[str, float] = field(default_factory=dict)
    reached: dict[str, float] = field(default_factory=dict)
    came: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def script(self, request: Recorded) -> Iterator[Piece]:
        name = request.json()["messages"][-1]["content"].split()[0]
        self.reached[name] = time.monotonic()
        self.came.put_nowait(name)
        yield Sleep(JOB_S * SCALE)
        yield from answer("openai", "said")

    async def ask(self, name: str, more: str = "", *, think: bool = False) -> None:
        self.sent[name] = time.monotonic()
        reply = await self.bench.chat("ollama", OAI, f"{name} {more}", think=think)
        assert (reply.status, reply.content) == (200, "said")

    def waited_s(self, kind: str) -> list[float]:
        """In the case's time."""
        return [(at - self.sent[name]) / SCALE for name, at in self.reached.items() if name.startswith(kind)]


@pytest.mark.parametrize("more", ["", "x" * 300], ids=["short", "longer"])
async def test_no_job_waits_for_ever_behind_a_flow_of_thinking_ones(bench: Bench, more: str) -> None:
    flow = Flow(bench)
    bench.oai.script = flow.script
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        count = 0
        for count in range(WAITING + 1):
            group.create_task(flow.ask(f"thinking{count}", think=True))

        async def others() -> None:
            for number, at_s in enumerate(AT_S):
                await asyncio.sleep(began + at_s * SCALE - time.monotonic())
                group.create_task(flow.ask(f"normal{number}", more))

        group.create_task(others())
        while time.monotonic() < began + PLAY_S * SCALE:
            if (await flow.came.get()).startswith("thinking"):
                count += 1
                group.create_task(flow.ask(f"thinking{count}", think=True))
    normal, thinking = flow.waited_s("normal"), flow.waited_s("thinking")
    assert len(normal) == len(AT_S)
    assert max(normal) <= 12.0
    assert statistics.median(thinking) < statistics.median(normal)
    assert len(thinking) >= 0.4 * PLAY_S / JOB_S, "the flow was steady"
    for name, think in (("alone", False), ("musing", True)):
        await flow.ask(name, more, think=think)
        assert flow.reached[name] - flow.sent[name] <= FREE_S

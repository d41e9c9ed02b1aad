"""The whole of it as real processes: engines, Redis, two workers, the gateway, and Open WebUI in front."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import httpx
import redis.asyncio

from tests.acceptance.site import Site, backend, run_site
from tests.openwebui.front import PREFIX, Front, run_front
from tests.rig.llama import LlamaServer, run_llama
from tests.rig.processes import Process, run_command
from tests.rig.redis_server import free_port
from tests.rig.scripted import Scripted

SIMULATED = "simulated-qwen3:14b"
TINY = "tiny-qwen3"
SINGLE = "m-single"
NAMES = {
    "ollama": {"simulated": SIMULATED, "tiny": f"{TINY}:latest", "single": f"{SINGLE}:latest"},
    "openai": {"simulated": f"{PREFIX}.{SIMULATED}", "tiny": f"{PREFIX}.{TINY}", "single": f"{PREFIX}.{SINGLE}"},
}
"""What Open WebUI calls each engine's model, by connection."""
QUIET_S = 120.0
STILL_S = 3.0
SLOTS = 2
LLAMA_CONTEXT = 4096
"""What the tiny model was trained for; a task's prompt brings a whole chat along."""


@dataclass
class Simulator:
    """The simulated engine, which can be killed and started again at the same address."""

    port: int
    stack: contextlib.AsyncExitStack
    """Ends what is running."""
    process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        flags = ("--port", str(self.port), "--model", SIMULATED)
        self.process = await self.stack.enter_async_context(run_command("simulate", *flags))
        await self.process.has_said("^  address ")

    async def kill(self) -> None:
        """As a crash would end it."""
        assert self.process is not None
        self.process.kill()
        await self.process.ended()


@dataclass(frozen=True, slots=True)
class Running:
    """Open WebUI with a gateway behind it, and what the gateway says of itself."""

    front: Front
    site: Site

    async def in_flight(self) -> float:
        """Jobs that the gateway knows at any engine."""
        return await self._all_of("doublebuffer_in_flight{")

    async def waiting(self) -> float:
        """Jobs that the gateway knows in any lane."""
        return await self._all_of("doublebuffer_queue_depth{")

    async def _all_of(self, metric: str) -> float:
        samples = await self.site.metrics()
        return sum(value for name, value in samples.items() if name.startswith(metric))

    async def users(self) -> set[str]:
        """For whom jobs wait or run, as the queue knows them."""
        client = redis.asyncio.Redis(port=self.site.redis.port, decode_responses=True)
        try:
            jobs = [await client.hmget(key, "st", "user") async for key in client.scan_iter("*:job:*", count=1000)]
        finally:
            await client.aclose()
        return {str(user) for state, user in jobs if state in ("waiting", "running")}

    async def is_quiet(self) -> None:
        """Waits until whatever the chats before set off has ended. Open WebUI's tasks come one after the other, and the
        gateway holds a title back for a while, so nothing must have happened for some time."""
        loop = asyncio.get_running_loop()
        seen, since = -1.0, loop.time()
        async with asyncio.timeout(QUIET_S):
            while loop.time() - since < STILL_S:
                ended = await self.ended()
                if ended != seen or await self.users() or await self.in_flight():
                    seen, since = ended, loop.time()
                await asyncio.sleep(0.1)

    async def ended(self, lane: str | None = None, outcome: str | None = None) -> float:
        """Requests answered so far, of a lane or of all, with an outcome or with any."""
        samples = await self.site.metrics()
        return sum(
            value
            for name, value in samples.items()
            if name.startswith("doublebuffer_requests_total{")
            and (lane is None or f'lane="{lane}"' in name)
            and (outcome is None or f'outcome="{outcome}"' in name)
        )


@dataclass(frozen=True, slots=True)
class Installation(Running):
    llama: LlamaServer
    simulator: Simulator
    single: Scripted
    """An engine with one place, which remembers what it was sent and when."""

    async def simulated_running(self) -> int:
        """Answers that the simulated engine itself says it is writing."""
        async with httpx.AsyncClient(trust_env=False) as client:
            text = (await client.get(f"{self.simulator.url}/metrics")).text
        return sum(int(number) for number in re.findall(r"^vllm:num_requests_running\{.*\} (\d+)", text, re.MULTILINE))


async def within(limit_s: float, holds: Callable[[], Awaitable[object]]) -> float:
    """The seconds after which something held. Raises ``TimeoutError`` if it did not in time."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(limit_s):
        while not await holds():
            await asyncio.sleep(0.02)
    return loop.time() - began


@contextlib.asynccontextmanager
async def braked(pid: int, *, run_s: float = 0.002, rest_s: float = 0.06) -> AsyncIterator[None]:
    """A process that gets to run a small part of the time only: the tiny model writes faster than anyone can read."""

    async def brake() -> None:
        while True:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(rest_s)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(run_s)

    task = asyncio.create_task(brake())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        os.kill(pid, signal.SIGCONT)


@contextlib.asynccontextmanager
async def run_installation() -> AsyncIterator[Installation]:
    async with contextlib.AsyncExitStack() as stack:
        llama = stack.enter_context(run_llama(slots=SLOTS, context=LLAMA_CONTEXT))
        simulator = Simulator(free_port(), stack)
        await simulator.start()
        single = await stack.enter_async_context(Scripted("openai", kind="vllm", models=[SINGLE]))
        backends = [
            backend("llama", "llamacpp", llama.url),
            backend("simulated", "vllm", simulator.url),
            backend("single", "vllm", single.url, max_in_flight=1),
        ]
        site = await stack.enter_async_context(run_site(backends, workers=2))
        front = await stack.enter_async_context(run_front(site.url))
        yield Installation(front, site, llama, simulator, single)

"""What a bench runs against: a simulated engine, a Redis, a gateway and workers of its own, or what runs already."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.processes import START_S, BenchError, Child, free_port, redis_binary, start
from simulate.cost import Profile

MODEL = "simulated-qwen3:14b"
WINDOW_MS = 50.0
MAX_WAIT_S = 60.0
LONG_S = 7_200.0
"""In place of what ends a request that waits long: what is sent direct has no such end either."""
QUEUE_LIMIT = 100_000
FAST_TOKENS = 528
"""The workloads' short chats have up to 512 tokens, and a gateway that only estimates them takes 512 for some more."""
_OURS = (sys.executable, "-m", "doublebuffer")
_PORT_TRIES = 5


@dataclass(frozen=True, slots=True)
class Stack:
    """Where the requests go."""

    direct: str
    gateway: str
    model: str
    simulated: str = ""
    """The profile of a simulated engine; empty: what answers is not known to be one."""
    workers: tuple[str, ...] = ()
    """The workers' own ``/metrics``."""
    children: tuple[Child, ...] = ()

    def check(self) -> None:
        """Raises ``BenchError`` if one of our processes has ended."""
        for child in self.children:
            child.check()


class _Crew:
    """The processes started so far."""

    def __init__(self, folder: Path) -> None:
        self.children: list[Child] = []
        self._folder = folder

    async def add(self, name: str, *command: str, settings: Mapping[str, str] | None = None) -> Child:
        self.children.append(await start(name, command, self._folder, settings))
        return self.children[-1]

    async def redis(self) -> str:
        """A server that keeps nothing on disk; its address."""
        binary = redis_binary()
        for attempt in range(1, _PORT_TRIES + 1):
            port = str(free_port())
            command = (binary, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
            child = await self.add("redis", *command, "--maxmemory-policy", "noeviction")
            try:
                await child.says(r"(Ready to accept connections)")
            except BenchError:
                # Somebody else may have taken the port in between.
                if attempt == _PORT_TRIES:
                    raise
                self.children.remove(child)
                await child.end()
            else:
                break
        return f"redis://127.0.0.1:{port}/0"

    async def end(self) -> None:
        """The latest first, so that nobody misses what he needs."""
        for child in reversed(self.children):
            await child.end()


@contextlib.asynccontextmanager
async def simulated_stack(
    profile: Profile, *, workers: int, speed: float, refuse_wait_s: Mapping[str, float] | None = None
) -> AsyncIterator[Stack]:
    """All of it in processes of its own on 127.0.0.1, gone with the block.

    ``speed``: modelled seconds in a second; what the gateway waits for by the clock is scaled with it.
    Raises ``BenchError``.
    """
    flags = ["--profile", profile.name, "--port", "0", "--time-scale", f"{1 / speed:.9g}", "--ignore-eos"]
    flags += ["--slots", str(profile.slots), "--num-ctx", str(profile.context_length)]
    with tempfile.TemporaryDirectory(prefix="doublebuffer-bench-") as folder:
        crew = _Crew(Path(folder))
        try:
            engine = await crew.add("engine", *_OURS, "simulate", *flags)
            redis_url = await crew.redis()
            direct = await engine.says(r"^  address +(http://\S+)")
            settings = _settings(profile, redis_url, direct, speed, refuse_wait_s)
            gateway = await crew.add("gateway", *_OURS, "gateway", settings=settings)
            hands = []
            for number in range(1, workers + 1):
                own = settings | {"DOUBLEBUFFER_METRICS_PORT": str(free_port())}
                hands.append(await crew.add(f"worker-{number}", *_OURS, "worker", settings=own))
            url = await gateway.says(r"^  address +(http://\S+)")
            metrics = tuple([await hand.says(r"^  metrics +(http://\S+)") for hand in hands])
            stack = Stack(direct, url, MODEL, profile.name, metrics, tuple(crew.children))
            await _ready(stack)
            yield stack
        finally:
            await crew.end()


def _settings(
    profile: Profile, redis_url: str, direct: str, speed: float, refuse_wait_s: Mapping[str, float] | None
) -> dict[str, str]:
    backend: dict[str, object] = {"name": "simulated", "kind": profile.kind, "url": direct}
    if profile.kind == "ollama":
        # It tells neither; its operator knows them.
        backend |= {"max_in_flight": profile.slots, "num_ctx": profile.context_length}
    refuse = {lane: wait_s / speed for lane, wait_s in refuse_wait_s.items()} if refuse_wait_s is not None else LONG_S
    return {
        "REDIS_URL": redis_url,
        "DOUBLEBUFFER_BACKENDS": json.dumps([backend]),
        "DOUBLEBUFFER_PORT": "0",
        "DOUBLEBUFFER_LOG_LEVEL": "warning",
        "DOUBLEBUFFER_WINDOW_MS": f"{WINDOW_MS / speed:g}",
        "DOUBLEBUFFER_MAX_WAIT_SECONDS": f"{MAX_WAIT_S / speed:g}",
        "DOUBLEBUFFER_QUEUE_TIMEOUT_SECONDS": f"{LONG_S:g}",
        "DOUBLEBUFFER_FIRST_TOKEN_TIMEOUT_SECONDS": f"{LONG_S:g}",
        "DOUBLEBUFFER_REFUSE_WAIT_SECONDS": json.dumps(refuse),
        "DOUBLEBUFFER_QUEUE_LIMIT": str(QUEUE_LIMIT),
        "DOUBLEBUFFER_FAST_TOKENS": str(FAST_TOKENS),
    }


async def _ready(stack: Stack) -> None:
    """Waits until the gateway knows a worker and its back end. Raises ``BenchError``."""
    last = "no answer"
    try:
        async with asyncio.timeout(START_S), aiohttp.ClientSession(trust_env=False) as session:
            while True:
                stack.check()
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{stack.gateway}/v1/models") as response:
                        text = await response.text()
                        if response.status == 200 and stack.model in text:
                            return
                        last = f"{response.status} {text[:200]}"
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise BenchError(f"the gateway did not get ready within {START_S:g} s: {last}") from None

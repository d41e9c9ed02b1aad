"""The rounds of one bench: each sends all requests direct and then through the gateway, so that whatever else the
machine does hits both alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from bench.asking import Answer, Asker
from bench.counters import Counters, read_counters
from bench.cpu import cores, cpu_s, load_average
from bench.load import Load, session
from bench.prompts import Prompts, body_of
from bench.rows import WAYS, Run, Way
from bench.stack import Stack

WARM_UP = 4
"""Short requests before the first round, each way, so that connections and caches are there."""
WARM_UP_CHARS = 60
WARM_UP_TOKENS = 8


class Watch:
    """Hears how far it is. Does nothing itself."""

    def begins(self, way: Way, round: int) -> None:
        """A run."""

    def ended(self, answer: Answer) -> None:
        """A request of it."""

    def done(self, run: Run) -> None:
        """The run."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What to do. ``clients``: of a closed loop; 0: open."""

    stack: Stack
    load: Load
    prompts: Prompts
    rounds: int
    clients: int = 0
    key: str = ""

    async def run(self, watch: Watch) -> list[Run]:
        """Raises ``BenchError`` if a process of ours ends. What a request meets is that request's outcome."""
        runs: list[Run] = []
        async with session() as client:
            await self._warm_up(client)
            for number in range(1, self.rounds + 1):
                for way in WAYS:
                    watch.begins(way, number)
                    runs.append(await self._once(client, way, number, watch.ended))
                    self.stack.check()
                    watch.done(runs[-1])
        return runs

    async def _warm_up(self, client: aiohttp.ClientSession) -> None:
        for way in WAYS:
            asker = self._asker(client, way)
            for number in range(WARM_UP):
                messages = self.prompts.plain(WARM_UP_CHARS, salt=f"warm-up {way} {number}")
                body = body_of(messages, model=self.stack.model, tokens=WARM_UP_TOKENS)
                await asker.ask(Answer(number, "", 0.0), body)

    def _asker(self, client: aiohttp.ClientSession, way: Way) -> Asker:
        return Asker(client, self.stack.direct if way == "direct" else self.stack.gateway, key=self.key)

    async def _once(self, client: aiohttp.ClientSession, way: Way, number: int, tell: Callable[[Answer], None]) -> Run:
        stack = self.stack
        pids = {"load generator": os.getpid()} | {child.name: child.pid for child in stack.children}

        async def counted() -> Counters:
            return await read_counters(
                client, gateway=stack.gateway, workers=stack.workers, engine=stack.direct, key=self.key
            )

        before = await counted()
        used = cpu_s(pids)
        asker = self._asker(client, way)
        # The other way's prompts are other words, or the engine would still know them from there.
        answers = await self.load.run(asker, clients=self.clients, salt=f"{way} {number}", tell=tell)
        took_s = asker.now()
        shares = cores(used, cpu_s(pids), took_s)
        after = await counted()
        return Run(way, number, answers, after.since(before), shares, load_average())

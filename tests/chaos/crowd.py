"""All clients at once: each asks, reads, checks, and asks again."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp

from tests.chaos.asks import ask
from tests.chaos.children import Child, Redis
from tests.chaos.client import Result, chat
from tests.chaos.detached import Detached

REFUSED_S = 2.0
"""Longest wait of a client that was told to come back later: it would like to know before the run is over."""
NOBODY_S = 0.2
BEFORE_S, AFTER_S = 1.0, 0.5
"""A connection that breaks so long after or before its gateway was killed was broken by that."""


@dataclass
class Crowd:
    seed: int
    clients: int
    words: tuple[int, int]
    hang_s: float
    gateways: Sequence[Child]
    urls: Sequence[str]
    redis: Redis
    trace: Path
    results: list[Result] = field(default_factory=list)
    unreached: int = 0
    """Times that a client found nobody at its gateway's address, and tried the other one."""
    keep: bool = True
    """Results are kept, for the account."""
    count: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    flawed: int = 0

    async def run(self, until: asyncio.Event) -> None:
        """Until ``until``, and then to the end of each answer under way."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as group:
            for client in range(self.clients):
                group.create_task(self._client(session, client, until))

    async def _client(self, session: aiohttp.ClientSession, client: int, until: asyncio.Event) -> None:
        turn = 0
        while not until.is_set():
            asked = ask(self.seed, client, turn, gateways=len(self.urls), words=self.words)
            turn += 1
            result = Result(asked, client, time.time(), gateway=asked.gateway)
            while not await self._try(session, result):
                self.unreached += 1
                result.gateway = (result.gateway + 1) % len(self.urls)
                await asyncio.sleep(NOBODY_S)
                result.began_at = time.time()
                if until.is_set():
                    return
            self._took(result)
            if result.outcome == "refused":
                await asyncio.sleep(min(float(result.retry_after), REFUSED_S))

    async def _try(self, session: aiohttp.ClientSession, result: Result) -> bool:
        """False: nobody listens there."""
        try:
            async with asyncio.timeout(self.hang_s):
                if result.ask.detaches is None:
                    await chat(session, self.urls[result.gateway], result)
                else:
                    await Detached(session, self.urls, result, Random(f"{self.seed} {result.ask.task.marker}")).chat()
        except TimeoutError:
            result.outcome = "hung"
        except aiohttp.ClientConnectorError:
            return False
        except (aiohttp.ClientError, ConnectionError) as error:
            # An Ollama stream is broken off behind its error, for clients that overlook the line.
            result.outcome = "error in the answer" if result.error else "cut off"
            result.error = result.error or f"{type(error).__name__}: {error}"
        result.ended_at = time.time()
        gone = self.gateways[result.gateway].was_killed(result.began_at - BEFORE_S, result.ended_at + AFTER_S)
        if gone and result.outcome == "cut off":
            result.outcome = "gateway killed"
        elif gone and result.returns and self.redis.was_emptied(result.began_at, result.ended_at):
            # Only the store still knew of it.
            lost = result.outcome in ("forgotten", "error in the answer")
            result.outcome = "gone with its store" if lost else result.outcome
        return True

    def _took(self, result: Result) -> None:
        result.judge()
        self.count += 1
        self.outcomes[result.outcome] += 1
        self.flawed += bool(result.flaws)
        if self.keep or result.flaws or result.outcome != "answered":
            with self.trace.open("a", encoding="utf-8") as trace:
                trace.write(json.dumps(result.row(), ensure_ascii=False) + "\n")
        if not result.flaws:
            result.text = ""  # known from the marker
        if self.keep:
            self.results.append(result)

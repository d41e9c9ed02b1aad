"""The load itself: requests at their times whatever becomes of those before (an open loop), or so many clients that
each ask again when they have their answer (a closed one).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import aiohttp

from bench.asking import Answer, Asker
from bench.prompts import Prompts, body_of
from simulate.study import lane_of
from simulate.workload import Arrival

Tell = Callable[[Answer], None]
"""Called with each request that has ended."""


def session() -> aiohttp.ClientSession:
    """For as many requests at a time as there are, without any limit on how long they take."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
        auto_decompress=False,
        trust_env=False,
    )


class Load:
    """The requests of a run. ``model``: whom to ask; ``speed``: seconds of the workload in a second of this clock."""

    def __init__(self, arrivals: Sequence[Arrival], prompts: Prompts, *, model: str, speed: float = 1.0) -> None:
        self.arrivals = arrivals
        self._prompts = prompts
        self._model = model
        self._speed = speed

    def body(self, number: int, *, salt: str) -> bytes:
        arrival = self.arrivals[number]
        messages = self._prompts.messages(arrival, number, salt=salt)
        return body_of(messages, model=self._model, tokens=arrival.output_tokens)

    async def run(self, asker: Asker, *, clients: int, salt: str, tell: Tell) -> list[Answer]:
        """All requests once, in order; returns when the last has ended. ``clients``: of a closed loop; 0: open."""
        if clients:
            return await self._closed(asker, clients, salt, tell)
        return await self._open(asker, salt, tell)

    async def _open(self, asker: Asker, salt: str, tell: Tell) -> list[Answer]:
        async with asyncio.TaskGroup() as group:
            asked = []
            for number, arrival in enumerate(self.arrivals):
                due_at = arrival.at_s / self._speed
                body = self.body(number, salt=salt)
                await asyncio.sleep(max(0.0, due_at - asker.now()))
                asked.append(group.create_task(self._ask(asker, number, due_at, body, tell)))
        return [one.result() for one in asked]

    async def _closed(self, asker: Asker, clients: int, salt: str, tell: Tell) -> list[Answer]:
        answers: list[Answer] = []
        numbers = iter(range(len(self.arrivals)))

        async def client() -> None:
            for number in numbers:
                body = self.body(number, salt=salt)
                answers.append(await self._ask(asker, number, asker.now(), body, tell))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(clients, len(self.arrivals))):
                group.create_task(client())
        return sorted(answers, key=lambda answer: answer.number)

    async def _ask(self, asker: Asker, number: int, due_at: float, body: bytes, tell: Tell) -> Answer:
        answer = await asker.ask(Answer(number, lane_of(self.arrivals[number]), due_at), body)
        tell(answer)
        return answer

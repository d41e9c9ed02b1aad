"""What goes wrong, and when."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.properties.processes import WorkerProcess
from tests.properties.pulls import CLOCK_BACK_S

if TYPE_CHECKING:
    from tests.properties.installation import Installation

FAULTS_S = 40.0
MOST_MISSED_S = 6.0
"""A gateway that sleeps for longer may be too late to bring back what a store has lost, before somebody asks for it."""
FAULTS = {
    "pause worker": 4,
    "pause gateway": 4,
    "crash worker": 3,
    "crash gateway": 1,
    "drain worker": 2,
    "clock back": 2,
    "store away": 2,
    "empty restart": 1,
    "rollback": 1,
}
"""What happens → how often, beside the others."""
SMALL_FAULTS = ("lost command", "lost ack", "hung", "repeated", "engine failed", "engine refused", "engine broken")


class Faults:
    def __init__(self, installation: Installation) -> None:
        self._it = installation
        self._world, self._rng = installation.world, installation.rng

    async def run(self) -> None:
        """For ``FAULTS_S`` seconds; after that nothing is lost any more."""
        world, rng = self._world, self._rng
        loop = asyncio.get_running_loop()
        end_s = loop.time() + FAULTS_S
        do = {
            "pause worker": self._pause_worker,
            "pause gateway": self._pause_gateway,
            "crash worker": self._crash_worker,
            "crash gateway": self._crash_gateway,
            "drain worker": self._drain,
            "clock back": self._clock,
            "store away": self._away,
            "empty restart": self._empty,
            "rollback": self._rollback,
        }
        while loop.time() < end_s:
            await asyncio.sleep(rng.uniform(0.3, 3.0))
            (name,) = rng.choices(list(FAULTS), list(FAULTS.values()))
            world.ledger.counts[name] += 1
            await do[name]()
        world.faulty = False

    async def _pause_worker(self) -> None:
        short, long = self._rng.uniform(0.5, 3.0), self._rng.uniform(4.5, 10.0)
        self._rng.choice(self._it.workers).far.pause(self._rng.choice((short, long)))

    async def _pause_gateway(self) -> None:
        gateway = self._rng.choice(self._it.gateways)
        short, long = self._rng.uniform(0.5, 8.0), self._rng.uniform(15.0, 22.0)
        gateway.far.pause(self._rng.choice((short, short, long)))
        for client in gateway.served:
            client.orphaned = client.orphaned or gateway.far.pauses_s > MOST_MISSED_S

    async def _crash_worker(self) -> None:
        number = self._rng.randrange(len(self._it.workers))
        old = self._it.workers[number]
        await old.crash()
        await asyncio.sleep(self._rng.uniform(0.0, 4.0))
        self._it.workers[number] = self._it.new_worker(_backends(old))

    async def _crash_gateway(self) -> None:
        number = self._rng.randrange(len(self._it.gateways))
        old = self._it.gateways[number]
        await old.crash()
        for client in old.served:
            client.left, client.orphaned = client.left or not client.over, True
        self._it.gateways[number] = self._it.new_gateway()

    async def _drain(self) -> None:
        number = self._rng.randrange(len(self._it.workers))
        old = self._it.workers[number]
        self._it.leaving.append(old)
        old.stop.set()
        self._it.workers[number] = self._it.new_worker(_backends(old))

    async def _clock(self) -> None:
        self._world.back_us = round(CLOCK_BACK_S * 1_000_000) - self._world.back_us

    async def _away(self) -> None:
        self._world.away(self._rng.uniform(0.5, 5.0))

    async def _empty(self) -> None:
        self._world.away(self._rng.uniform(0.1, 3.0))
        self._world.empty()

    async def _rollback(self) -> None:
        self._world.away(self._rng.uniform(0.1, 3.0))
        self._world.roll_back(self._rng.uniform(1.0, 20.0))


def _backends(process: WorkerProcess) -> list[str]:
    return [engine.name for pool in process.worker.pools for engine in pool.engines]

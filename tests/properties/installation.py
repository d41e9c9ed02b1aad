"""A whole installation in virtual time: gateways, workers, clients, faults, and the judge who says when all is over."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

from buffer.access import Store
from buffer.job import LANES
from buffer.records import NewJob
from tests.properties import checks
from tests.properties.far import ProductGateway, ProductSending
from tests.properties.ledger import Client, Ledger, Violation
from tests.properties.schedule import Actor
from tests.properties.serving import Gateway
from tests.properties.state import ask
from tests.properties.text import fold, words
from tests.properties.working import Worker
from tests.properties.world import START_US, World, plan

CLIENTS_COME_S = 20.0
FAULTS_S = 40.0
FAULTS = ("pause worker", "pause gateway", "crash worker", "crash gateway", "drain", "clock", "store")
AT_THE_LATEST_S = 400.0


class Installation:
    def __init__(self, store: Store, seed: int, **plans: Any) -> None:
        rng = Random(seed)
        self.world = World(store, rng, plan(rng, **plans))
        self.nature = Actor("nature")
        self.numbers = {"gateway": 0, "worker": 0}
        self.over = False
        self.gateways = [self._gateway() for _ in range(2)]
        backends = list(self.world.plan.backends)
        self.workers = [self._worker(backends), self._worker(rng.sample(backends, rng.randint(1, len(backends))))]
        self.workers.append(self._worker(backends[:1]))
        for loop in (self._clients, self._come_back, self._judge):
            self.world.schedule.spawn(self.nature, loop)
        if self.world.plan.faulty:
            self.world.schedule.spawn(self.nature, self._faults)

    def _gateway(self) -> Gateway | ProductGateway:
        self.numbers["gateway"] += 1
        kind = self.world.rng.choice((Gateway, ProductGateway))
        return kind(self.world, f"g{self.numbers['gateway']}")

    def _worker(self, backends: list[str]) -> Worker:
        self.numbers["worker"] += 1
        worker = Worker(self.world, f"w{self.numbers['worker']}", backends)
        if self.world.rng.random() < 0.5:
            worker.product = ProductSending(self.world, worker)
        return worker

    async def _clients(self) -> None:
        world, rng = self.world, self.world.rng
        for number in range(world.plan.jobs):
            client = self._client(f"j{number}")
            world.ledger.clients[client.job.id] = client
            gateway = rng.choice(self.gateways)
            gateway.served.add(client.job.id)
            world.schedule.spawn(gateway, gateway.serve, client, rng.choice((0, 0, 12)))
            if world.faults and rng.random() < 0.2:
                world.schedule.spawn(self.nature, self._leave, gateway, client)
            if world.faults and rng.random() < 0.1:
                world.schedule.spawn(gateway, gateway.slow, client, rng.uniform(0.1, 3.0))
            pace = CLIENTS_COME_S / world.plan.jobs
            await world.sleep(self.nature, 0.0, 2 * pace if rng.random() < 0.7 else 0.01)

    def _client(self, job_id: str) -> Client:
        rng, plan = self.world.rng, self.world.plan
        lane = rng.choice(LANES)
        resumable = rng.random() < 0.8
        total = rng.randint(1, 30)
        body = {"words": total, "segment": rng.choice((0, 0, 6)) if resumable else 0}
        job = NewJob(
            id=job_id,
            model=rng.choice(plan.models),
            lane=lane,
            user=f"u{rng.randint(1, 4)}",
            inbox="",
            body=json.dumps(body).encode() + b" " * (70_000 if rng.random() < 0.05 else 0),
            offset_us=int(rng.uniform(0, plan.max_wait_s) * 1_000_000),
            max_wait_us=int(plan.max_wait_s * 1_000_000),
            timeout_us=rng.choice((6_000_000, 120_000_000, 600_000_000)),
            cost=rng.randint(1, 50),
            kv=rng.randint(0, 80),
            prefill=rng.randint(0, 40),
            long=rng.random() < 0.2,
            det=rng.random() < 0.2,
        )
        return Client(job, total, resumable)

    async def _leave(self, gateway: Gateway, client: Client) -> None:
        await self.world.sleep(self.nature, 0.5, 8.0)
        if not gateway.dead:
            self.world.ledger.counts["left"] += 1
            self.world.schedule.spawn(gateway, gateway.leave, client)

    async def _come_back(self) -> None:
        """Clients of detached jobs who left read the reply key."""
        world = self.world
        while True:
            for client in [one for one in world.ledger.clients.values() if one.left and one.job.det]:
                (entries,) = await ask(world.lanes, [("XRANGE", world.lanes.keys.reply(client.job.id), "-", "+")])
                folded = fold(entries or [])
                if entries:
                    world.ledger.came_back(client.job.id, folded.text)
                if folded.end == "done" and len(words(folded.text)) != client.total:
                    raise Violation(f"P1: {client.job.id} is done, its reply key has {folded.text!r}")
            await world.sleep(self.nature, 0.2, 1.0)

    async def _judge(self) -> None:
        """All is over once each client has its end and no record is open."""
        world = self.world
        while not self.over:
            await world.sleep(self.nature, 1.0)
            if len(world.ledger.clients) == world.plan.jobs and all(one.over for one in world.ledger.clients.values()):
                state = await world.look()
                self.over = not world.faults and all(job.st == "done" for job in state.jobs.values())

    async def _faults(self) -> None:
        world, rng = self.world, self.world.rng
        end_us = world.schedule.now_us + int(FAULTS_S * 1_000_000)
        while world.schedule.now_us < end_us:
            await world.sleep(self.nature, 0.3, 2.5)
            gateway, worker = rng.randrange(len(self.gateways)), rng.randrange(len(self.workers))
            fault = rng.choice(FAULTS)
            world.ledger.counts[fault] += 1
            if fault == "pause worker":
                world.schedule.pause(self.workers[worker], rng.choice((rng.uniform(0.5, 3.0), rng.uniform(4.5, 10.0))))
            elif fault == "pause gateway":
                seconds = rng.choice((rng.uniform(0.5, 8.0), rng.uniform(15.0, 22.0)))
                world.schedule.pause(self.gateways[gateway], seconds)
            elif fault == "crash worker":
                await self._crash_worker(worker)
            elif fault == "crash gateway" and rng.random() < 0.3:
                await self._crash_gateway(gateway)
            elif fault == "drain":
                self._drain(worker)
            elif fault == "clock":
                world.back_us = 2_000_000 - world.back_us
            elif fault == "store":
                world.away_until_us = world.schedule.now_us + int(rng.uniform(0.5, 5.0) * 1_000_000)
        world.faults = False

    async def _crash_worker(self, number: int) -> None:
        old = self.workers[number]
        await self.world.schedule.crash(old)
        await self.world.sleep(self.nature, 0.0, 4.0)
        self.workers[number] = self._worker(old.backends)

    async def _crash_gateway(self, number: int) -> None:
        old = self.gateways[number]
        await self.world.schedule.crash(old)
        for one in old.jobs.values():
            one.client.left = True
        for client in self.world.ledger.clients.values():
            client.left = client.left or client.job.id in old.served
        self.gateways[number] = self._gateway()

    def _drain(self, number: int) -> None:
        old = self.workers[number]
        self.workers[number] = self._worker(old.backends)
        self.world.schedule.spawn(self.nature, self._see_off, old)

    async def _see_off(self, worker: Worker) -> None:
        self.world.schedule.spawn(worker, worker.drain)
        while not worker.drained and not worker.dead:
            await self.world.sleep(self.nature, 0.1)
        if not worker.dead:
            await self.world.schedule.crash(worker)


async def play(store: Store, seed: int, **plans: Any) -> Ledger:
    """One seed, from the first client to quiet. Raises ``Violation``."""
    installation = Installation(store, seed, **plans)
    world = installation.world
    loop = asyncio.get_running_loop()
    real_time, loop.time = loop.time, lambda: world.schedule.now_us / 1_000_000  # type: ignore[method-assign]
    try:
        if not await world.schedule.run(lambda: installation.over, START_US + int(AT_THE_LATEST_S * 1_000_000)):
            waits = {one.job.id for one in world.ledger.clients.values() if not one.over}
            state = await world.look()
            jobs = {job.id: job.st for job in state.jobs.values() if job.st != "done"}
            how = {name: one for gateway in installation.gateways for name, one in gateway.jobs.items()}
            raise Violation(f"P9: no end after {AT_THE_LATEST_S} s for {sorted(waits)}; in the store: {jobs}; {how}")
        state = await world.look()
        checks.check_state(state, world.ledger)
        checks.check_quiet(state)
        await checks.check_lifetimes(world.lanes)
        world.ledger.counts["calls"] = world.calls
        world.ledger.counts["virtual s"] = (world.schedule.now_us - START_US) // 1_000_000
    finally:
        for actor in [*world.schedule.actors]:
            await world.schedule.crash(actor)
        loop.time = real_time  # type: ignore[method-assign]
    return world.ledger

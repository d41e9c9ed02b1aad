"""A whole installation in virtual time: gateways, workers, clients, faults, and the judge who says when all is over."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from random import Random
from unittest.mock import patch

from buffer.job import LANES, Chat, Message, encode_chat
from buffer.names import queue_names
from buffer.records import NewJob
from buffer.settings import Settings
from tests.properties import checks
from tests.properties.engines import Engine
from tests.properties.far import Far
from tests.properties.faults import Faults
from tests.properties.ledger import Client, Ledger, Violation
from tests.properties.plan import MODELS, plan
from tests.properties.processes import GatewayProcess, WorkerProcess
from tests.properties.server import Server
from tests.properties.world import Names, World

CLIENTS_COME_S = 20.0
AT_THE_LATEST_S = 400.0
LEASE_S = 4.0
SNAPSHOT_S = 1.5
IDLE, IDLE_S = 0.5, 8.0
"""How often clients wait for an idle moment, and for how long at most."""


class Installation:
    def __init__(self, server: Server, seed: int, *, faulty: bool = True, jobs: int) -> None:
        self.rng = rng = Random(seed)
        random.seed(seed)
        self.plan = plan(rng, faulty=faulty, jobs=jobs)
        queues = tuple(queue_names(model)[0] for model in MODELS)
        self.world = World(server, rng, Names(queues, tuple(self.plan.models)))
        self.world.faulty = faulty
        self.settings = Settings(lease_seconds=LEASE_S, drain_seconds=2.0, queue_limit=1000)
        self.numbers = {"gateway": 0, "worker": 0}
        self.gateways = [self.new_gateway() for _ in range(2)]
        names = list(self.plan.models)
        self.workers = [self.new_worker(names), self.new_worker(rng.sample(names, rng.randint(1, len(names))))]
        self.workers.append(self.new_worker(names[:1]))
        self.leaving: list[WorkerProcess] = []

    def new_gateway(self) -> GatewayProcess:
        self.numbers["gateway"] += 1
        return GatewayProcess(self.world, f"g{self.numbers['gateway']}", LEASE_S)

    def new_worker(self, backends: list[str]) -> WorkerProcess:
        self.numbers["worker"] += 1
        name = f"w{self.numbers['worker']}"
        nowhere = Far(self.world, name)
        plan = self.plan
        engines = [
            Engine(self.world, nowhere, plan.specs[one], plan.models[one], splits=one in plan.splits)
            for one in backends
        ]
        return WorkerProcess(self.world, name, engines, self.settings)

    async def run(self) -> None:
        """From the first client to quiet. Raises ``Violation``."""
        world = self.world
        failed = asyncio.Event()
        world.on_failure = failed.set
        loops = [self._clients(), self._come_back()]
        loops += [Faults(self).run(), self._snapshots()] if self.plan.faulty else []
        ends = {asyncio.ensure_future(self._judge()), asyncio.ensure_future(failed.wait())}
        pending = ends | {asyncio.ensure_future(loop) for loop in loops}
        try:
            async with asyncio.timeout(AT_THE_LATEST_S):
                while ends <= pending:
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
            if world.failure is not None:
                raise world.failure
            self._quiet()
        except TimeoutError:
            raise Violation(self._stuck()) from None
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            for process in [*self.gateways, *self.workers, *self.leaving]:
                await process.crash()
            world.attendance.end()

    def _quiet(self) -> None:
        world = self.world
        state = world.look()
        checks.check_state(state, world.ledger)
        checks.check_quiet(state)
        checks.check_lifetimes(world.server, world.keys)
        world.ledger.counts["checks"] = world.calls

    def _stuck(self) -> str:
        world = self.world
        waits = sorted(one.job.id for one in world.ledger.clients.values() if not one.over)
        state = world.look()
        jobs = {job.id: (job.st, job.fence) for job in state.jobs.values() if job.st != "done"}
        return f"P9: no end after {AT_THE_LATEST_S} s for {waits}; in the store: {jobs}"

    # --- clients

    async def _clients(self) -> None:
        rng = self.rng
        for number in range(self.plan.jobs):
            client = self._client(f"j{number}")
            gateway = rng.choice(self.gateways)
            gateway.serve(client, rng.choice((0, 0, 12)))
            if self.plan.faulty and rng.random() < 0.2:
                gateway.begin(self._leave(gateway, client))
            if rng.random() < IDLE:
                await self._idle()
            pace = CLIENTS_COME_S / self.plan.jobs
            await asyncio.sleep(rng.uniform(0.0, 2 * pace if rng.random() < 0.7 else 0.01))

    async def _idle(self) -> None:
        """Until nothing is open, or it was too long."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + IDLE_S
        while loop.time() < until_s and any(job.st != "done" for job in self.world.look().jobs.values()):
            await asyncio.sleep(0.2)

    def _client(self, job_id: str) -> Client:
        rng, max_wait_s = self.rng, self.plan.max_wait_s
        lane, resumable, model = rng.choice(LANES), rng.random() < 0.8, rng.choice(MODELS)
        splits = rng.random() < 0.3
        prefill = rng.randint(0, 3000 if splits else 400)
        whole, user = rng.random() < 0.15, rng.randint(1, 4)
        text = "x" * 70_000 if rng.random() < 0.05 else "x"
        chat = Chat(model=model, messages=[Message("user", text)], stream=not whole, logprobs=not resumable)
        job = NewJob(
            id=job_id,
            model=queue_names(model)[0],
            lane=lane,
            user=f"u{user}",
            owner=f"key:{user % 2}",
            share=self.plan.share if user % 2 else 0,
            inbox="",
            body=encode_chat(chat),
            offset_us=int(rng.uniform(0, max_wait_s) * 1_000_000),
            max_wait_us=int(max_wait_s * 1_000_000),
            timeout_us=rng.choice((6_000_000, 120_000_000, 600_000_000)),
            cost=rng.randint(1, 50),
            kv=rng.randint(0, 80),
            prefill=prefill,
            prompt=prefill + rng.choice((0, 0, 200)),
            splits=splits,
            long=rng.random() < 0.2,
            det=rng.random() < 0.3,
        )
        thoughts = rng.randint(1, 6) if rng.random() < 0.3 else 0
        return Client(job, chat, rng.randint(1, 30), thoughts, resumable, whole)

    async def _leave(self, gateway: GatewayProcess, client: Client) -> None:
        await asyncio.sleep(self.rng.uniform(0.5, 8.0))
        gateway.leave(client)

    async def _come_back(self) -> None:
        """Clients of detached jobs who left read on, for a while, from another gateway perhaps."""
        world, rng = self.world, self.rng
        reading: dict[str, asyncio.Task[None]] = {}
        while True:
            await asyncio.sleep(rng.uniform(0.2, 2.0))
            for client in [one for one in world.ledger.clients.values() if self._may_come_back(one)]:
                before = reading.get(client.job.id)
                if before is None or before.done():
                    reader = rng.choice(self.gateways)
                    reading[client.job.id] = reader.begin(reader.read_again(client, rng.uniform(0.3, 20.0)))

    @staticmethod
    def _may_come_back(client: Client) -> bool:
        return client.job.det and client.left and not client.second_end

    async def _judge(self) -> None:
        """All is over once each client has its end and no record is open."""
        world = self.world
        while True:
            await asyncio.sleep(1.0)
            if len(world.ledger.clients) < self.plan.jobs or not all(one.over for one in world.ledger.clients.values()):
                continue
            if any(self._may_come_back(one) for one in world.ledger.clients.values()):
                continue
            state = world.look()
            if not world.faulty and all(job.st == "done" for job in state.jobs.values()):
                return

    async def _snapshots(self) -> None:
        while self.world.faulty:
            await asyncio.sleep(SNAPSHOT_S)
            self.world.snapshot()


async def play(server: Server, seed: int, *, faulty: bool = True, jobs: int) -> Ledger:
    """One seed, in virtual time. Raises ``Violation``."""
    logging.disable(logging.CRITICAL)
    names = Random(seed)
    try:
        with patch.object(secrets, "token_hex", lambda size: names.randbytes(size).hex()):
            installation = Installation(server, seed, faulty=faulty, jobs=jobs)
            await installation.run()
        return installation.world.ledger
    finally:
        logging.disable(logging.NOTSET)

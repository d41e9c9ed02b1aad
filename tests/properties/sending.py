"""How an attempt's words go to the client's gateway and to the reply key, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from buffer import frames
from buffer.access import StoreUnavailable
from buffer.frames import Part
from buffer.heard import Said
from buffer.job import Content, End
from buffer.records import Chunk, GivenBack, Granted, Renewed
from tests.properties.ledger import Violation
from tests.properties.state import ask
from tests.properties.text import pack
from tests.properties.world import CANCELLED, World

if TYPE_CHECKING:
    from tests.properties.working import Worker

APPEND_EVERY_S = 0.1
MAX_ATTEMPTS = 3


class Attempt:
    def __init__(self, job: Granted, backend: str, prefix: str) -> None:
        self.job, self.backend, self.inbox = job, backend, job.inbox
        self.prefix = prefix
        self.pieces: list[str] = []
        self.sent = self.appended = 0
        self.finish: Literal["", "done", "error", "segment", "drain"] = ""
        self.cancelled = self.paused = self.over = False
        self.before: Attempt | None = None
        """An earlier one at the same job, of the same worker."""
        self.away = False
        """Nothing more of it will be written."""
        self.unheard_since_us = self.orphan_since_us = 0

    @property
    def closed(self) -> bool:
        """The engine's stream is closed, or to be closed."""
        return self.over or self.cancelled or bool(self.finish)

    def told(self, kind: str) -> None:
        self.cancelled = self.cancelled or kind == "cancel"
        self.paused = kind == "pause"

    def renewed(self, renewed: Renewed, now_us: int, lease_s: float) -> None:
        if renewed.status == "lost":
            self.over = True
        elif renewed.status == "orphan":
            self.orphan_since_us = self.orphan_since_us or now_us
            self.over = self.over or now_us - self.orphan_since_us > lease_s * 1_000_000
        else:
            self.orphan_since_us = 0
            self.inbox = renewed.inbox
            self.cancelled = self.cancelled or renewed.status == "cancel"


class Sending:
    """One attempt's way out."""

    def __init__(self, world: World, worker: Worker, attempt: Attempt) -> None:
        self.world, self.worker, self.attempt = world, worker, attempt

    async def run(self) -> None:
        attempt, world = self.attempt, self.world
        appended_us = world.schedule.now_us
        while not attempt.over:
            await world.sleep(self.worker, 0.005, 0.04)
            due = world.schedule.now_us - appended_us > APPEND_EVERY_S * 1_000_000 or attempt.closed
            try:
                if attempt.job.det:
                    if due:
                        await self._append()
                        appended_us = world.schedule.now_us
                    await self._frame(attempt.appended)
                else:
                    await self._frame(len(attempt.pieces))
                    if due:
                        await self._append()
                        appended_us = world.schedule.now_us
                if attempt.closed and not attempt.over and self._all_out():
                    await self._end()
            except StoreUnavailable:
                continue
        self.worker.wake.add(attempt.backend)

    def _all_out(self) -> bool:
        return self.attempt.sent >= len(self.attempt.pieces) <= self.attempt.appended

    async def _frame(self, upto: int) -> None:
        attempt, world = self.attempt, self.world
        if upto <= attempt.sent or attempt.over:
            return
        job, first = attempt.job, attempt.sent + 1
        part = Part(job.id, job.fence, first, "ev", [Content(piece) for piece in attempt.pieces[attempt.sent : upto]])
        key = world.lanes.keys.inbox(attempt.inbox)
        frame = ("XADD", key, "NOMKSTREAM", "*", "p", frames.pack([part]))
        heard = await world.call(self.worker, lambda: ask(world.lanes, [frame]), twice=False)
        attempt.sent = upto
        if heard[0] is not None:
            attempt.unheard_since_us = 0
            return
        now = world.schedule.now_us
        attempt.unheard_since_us = attempt.unheard_since_us or now
        if not job.det and now - attempt.unheard_since_us > world.plan.lease_s * 1_000_000:
            await self._settle(CANCELLED, drop=True)

    async def _append(self) -> None:
        attempt, world = self.attempt, self.world
        job, last = attempt.job, len(attempt.pieces)
        if attempt.appended >= last or attempt.over:
            return
        chunk = Chunk(job.id, job.fence, attempt.appended + 1, last, pack(attempt.pieces[attempt.appended :]))
        (result,) = await world.call(self.worker, lambda: self._checked(chunk))
        if isinstance(result, int):
            attempt.appended = result
        elif result == "lost":
            attempt.over = True
        else:
            await self.world.sleep(self.worker, 1.0)

    async def _checked(self, chunk: Chunk) -> list[int | str]:
        results = await self.world.lanes.append([chunk])
        if isinstance(results[0], int):
            self.world.ledger.accepted(chunk.id, chunk.fence, "an append")
            if results[0] > len(self.attempt.pieces):
                raise Violation(f"P3: the reply of {chunk.id} has {results[0]} events, its owner sent fewer")
        return list(results)

    async def _end(self) -> None:
        attempt, world = self.attempt, self.world
        text = attempt.prefix + "".join(attempt.pieces)
        if attempt.cancelled:
            await self._settle(CANCELLED)
        elif attempt.finish == "done":
            await self._settle(End("done"))
        elif attempt.finish == "error" and text and not world.ledger.clients[attempt.job.id].resumable:
            await self._settle(End("failed"))
        else:
            await self._release(text)

    async def _settle(self, end: End, *, drop: bool = False) -> None:
        attempt, world = self.attempt, self.world
        job, n = attempt.job, len(attempt.pieces) + 1
        spent = world.rng.randint(0, 20) if world.rng.random() < 0.5 else None
        result = await world.call(
            self.worker,
            lambda: world.lanes.settle(job.id, job.fence, n, end, real_tokens=spent, drop=drop),
            under=(job.id, job.fence),
        )
        if isinstance(result, int):
            attempt.appended = result
        else:
            attempt.over = True

    async def _release(self, text: str) -> None:
        attempt, world = self.attempt, self.world
        job, n = attempt.job, len(attempt.pieces) + 1
        why = "error" if attempt.finish in ("error", "done") else attempt.finish
        back = GivenBack(why, Said(text), spent=n, max_attempts=MAX_ATTEMPTS)  # type: ignore[arg-type]
        result = await world.call(
            self.worker,
            lambda: world.lanes.release(job.id, job.fence, n, back),
            under=(job.id, job.fence),
        )
        world.ledger.counts[f"{why}: {result}"] += 1
        attempt.over = True

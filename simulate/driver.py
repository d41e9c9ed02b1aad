"""The engine in real time: one task that takes step after step and sleeps as long as each would last."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Sequence
from itertools import count

from simulate.engine import Engine
from simulate.plan import Plan
from simulate.prompt import Prompt
from simulate.sequence import RefusedError, Request, Running, Step

CATCH_UP_S = 0.1
"""Further behind the wall clock than this, the engine drops the time it has lost and goes on from now."""


class GoneError(Exception):
    """The client has left, and its answers have been cancelled."""


class Answer:
    """One answer under way. ``ready`` tokens of its plan may be sent."""

    __slots__ = ("ended", "id", "plan", "ready", "sequence")

    def __init__(self, plan: Plan, answer_id: Hashable, sequence: Running) -> None:
        self.plan = plan
        self.id = answer_id
        self.sequence = sequence
        self.ready = 0
        self.ended = False


class Group:
    """The answers to one HTTP request, and who waits for them. Instants are the event loop's, in seconds."""

    def __init__(self, submitted_at: float) -> None:
        self.answers: list[Answer] = []
        self.submitted_at = submitted_at
        self.first_at = math.nan
        self.ended_at = math.nan
        self.gone = False
        self.news = asyncio.Event()

    @property
    def ended(self) -> bool:
        return all(answer.ended for answer in self.answers)

    async def changed(self) -> None:
        """Wait until a token is ready or an answer has ended since the last call. Raises ``GoneError``."""
        await self.news.wait()
        self.news.clear()
        if self.gone:
            raise GoneError

    async def whole(self) -> None:
        """Wait until every answer has ended. Raises ``GoneError``."""
        while not self.ended:
            await self.changed()


class Driver:
    """``time_scale``: wall seconds for a modelled second. 0: as fast as the machine goes."""

    def __init__(self, engine: Engine, *, time_scale: float = 1.0) -> None:
        if not 0 <= time_scale < math.inf:
            raise ValueError("the time scale must be a number from 0 on")
        self.engine = engine
        self.time_scale = time_scale
        self._answers: dict[Hashable, tuple[Answer, Group]] = {}
        self._ids = count()
        self._work = asyncio.Event()
        self._epoch: float | None = None
        self._now = 0.0

    def submit(self, prompt: Prompt, plans: Sequence[Plan], *, model: str, num_ctx: int = 0) -> Group:
        """Hand the engine one request for each plan. Raises ``RefusedError`` if it takes not all; then it has none."""
        group = Group(asyncio.get_running_loop().time())
        try:
            for plan in plans:
                answer_id = next(self._ids)
                request = Request(answer_id, prompt.tokens, plan.tokens, model, prompt.blocks, num_ctx)
                answer = Answer(plan, answer_id, self.engine.submit(request, self._clock()))
                group.answers.append(answer)
                self._answers[answer_id] = answer, group
        except RefusedError:
            self.cancel(group)
            raise
        self._work.set()
        return group

    def cancel(self, group: Group) -> None:
        """Forget what has not ended of a group. Whoever waits for it gets ``GoneError``."""
        for answer in group.answers:
            if self._answers.pop(answer.id, None) is not None:
                self.engine.cancel(answer.id)
        if not group.ended:
            group.gone = True
            group.news.set()

    async def run(self) -> None:
        """Drive the engine until cancelled. Without requests it waits, and takes no CPU."""
        now = self._clock()
        while True:
            step = self.engine.step(now)
            if step is not None:
                due = now + step.duration_s
                await self._sleep_until(due)
                self._deliver(step)
                behind = self._clock() - due
                now = due if behind * self.time_scale < CATCH_UP_S else self._clock()
            elif self.engine.wake_at is not None:
                now = max(now, self.engine.wake_at)
                await self._sleep_until(now)
            else:
                self._work.clear()
                await self._work.wait()
                now = max(now, self._clock())

    def _clock(self) -> float:
        """Seconds of the model's time since the first look at it."""
        if not self.time_scale:
            return self._now
        wall = asyncio.get_running_loop().time()
        if self._epoch is None:
            self._epoch = wall
        return (wall - self._epoch) / self.time_scale

    async def _sleep_until(self, at: float) -> None:
        if self.time_scale:
            await asyncio.sleep(max(0.0, (at - self._clock()) * self.time_scale))
        else:
            await asyncio.sleep(0)
            self._now = at

    def _deliver(self, step: Step) -> None:
        """Tell the readers what the step that has just ended gave them."""
        wall = asyncio.get_running_loop().time()
        for sequence in self.engine.running.values():
            held = self._answers.get(sequence.request.id)
            ready = self.engine.generated(sequence)
            if held is not None and ready > held[0].ready:
                self._advance(*held, ready, wall)
        for sequence in step.finished:
            held = self._answers.pop(sequence.request.id, None)
            if held is not None:
                held[0].ended = True
                self._advance(*held, sequence.output, wall)
                if held[1].ended:
                    held[1].ended_at = wall

    def _advance(self, answer: Answer, group: Group, ready: int, wall: float) -> None:
        answer.ready = ready
        if math.isnan(group.first_at):
            group.first_at = wall
        group.news.set()

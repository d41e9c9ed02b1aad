"""A batch to its back end, one stream a job; and what comes of each."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from contextlib import aclosing
from typing import Literal

import msgspec

from backends.base import BackendError
from buffer.job import Chat, End, Event, Failure, Origin, Usage, decode_chat
from buffer.records import GivenBack
from buffer.store import StoreUnavailable
from worker.hand import Hand, StoppedError
from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")

RETRY_FIRST_S = 0.1
RETRY_MOST_S = 2.0
LEAVE_S = 2.0
"""How long a back end leaves a job that failed there to others that could take it, whichever worker asks."""

DONE = End("done")
CANCELLED = End("cancelled")
UNREADABLE = End("failed", Failure("The job could not be read.", status=500, code="unreadable_job"))
NO_RESUME = End("failed", Failure("The answer broke off and cannot be continued.", code="broken_off"))
WORKER_STOPS = End(
    "failed", Failure("The worker is being stopped before the answer was complete.", status=503, code="worker_stopped")
)
DEFECT = End("failed", Failure("The worker could not handle this request.", status=500, code="internal_error"))


class Dispatch:
    """Runs the jobs of one pool. Its task group is the parent of every job's task."""

    def __init__(self, pool: Pool, tasks: asyncio.TaskGroup) -> None:
        self._pool = pool
        self._tasks = tasks

    def batch(self, hands: Sequence[Hand], bodies: Sequence[bytes | None]) -> None:
        """Starts them all in this turn of the loop, so that the engine takes them in together."""
        self._pool.telemetry.batch_size.observe(len(hands))
        for hand, body in zip(hands, bodies, strict=True):
            self._tasks.create_task(self._job(hand, body), name=f"job {hand.job.id}")

    async def _job(self, hand: Hand, body: bytes | None) -> None:
        """One attempt, from its body to its end. Whatever goes wrong in it ends here, with a settled job."""
        try:
            await self._attach(hand)
            outcome = await self._attempt(hand, body)
        except Exception as error:  # noqa: BLE001 - the border of a job: a defect of ours ends this job, not the worker
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("job %s: %s at %s:%s", hand.job.id, type(error).__name__, where.filename, where.lineno)
            hand.engine.breaker.undecided()
            outcome = await self._end(hand, DEFECT)
        finally:
            self._put_away(hand)
        self._tell(hand, outcome)
        if self._pool.stopping or not hand.engine.able:
            await self._ring()

    async def _ring(self) -> None:
        """A place became free that this worker will not fill: let the others know."""
        try:
            await self._pool.lanes.ring_bell()
        except StoreUnavailable:
            self._pool.away()

    async def _attach(self, hand: Hand) -> None:
        """A job that was given back here, or taken away, can be pulled here again before the word of that is read."""
        if hand.before is not None:
            await hand.before.away.wait()
            hand.before = None
            self._pool.replies.drop(hand.job.id)
        self._pool.replies.attach(hand.job)

    def _put_away(self, hand: Hand) -> None:
        """A job that was given back may be in hand again by now, as another attempt: that one stays."""
        if self._pool.hands.get(hand.job.id) is hand:
            del self._pool.hands[hand.job.id]
            self._pool.replies.drop(hand.job.id)
        hand.engine.ended(hand.stream)
        hand.away.set()

    async def _attempt(self, hand: Hand, body: bytes | None) -> str:
        job = hand.job
        if job.prefix:
            hand.engine.breaker.undecided()
            return await self._end(hand, NO_RESUME)
        try:
            chat = decode_chat(body or b"")
        except msgspec.DecodeError:
            self._pool.telemetry.dead_letters.inc()
            hand.engine.breaker.undecided()
            return await self._end(hand, UNREADABLE, dead="The job's body could not be read.")
        hand.whole = not chat.stream
        try:
            with hand.stoppable():
                await self._stream(hand, chat)
        except StoppedError:
            self._count(hand, "cancelled")
            return await self._stopped(hand)
        except BackendError as error:
            return await self._failed(hand, error)
        hand.engine.breaker.succeeded()
        self._pool.telemetry.attempt_ended(hand.engine.name, "ok")
        return await self._end(hand, DONE)

    async def _stream(self, hand: Hand, chat: Chat) -> None:
        """Reads the engine's answer into the reply. Leaving it closes the engine's connection."""
        job, engine, replies = hand.job, hand.engine, self._pool.replies
        upstream = engine.upstream(job.model) or chat.model
        # What an engine says of itself is no answer yet: an attempt that breaks after it can be made again.
        held: list[Event] = []
        async with aclosing(engine.backend.chat(chat, upstream_model=upstream, request_id=job.id)) as answer:
            async for events in answer:
                engine.flowed(hand.stream)
                for event in events:
                    if isinstance(event, Usage):
                        hand.tokens = event.prompt + event.completion
                if not hand.events and all(isinstance(event, Origin) for event in events):
                    held.extend(events)
                    continue
                if not hand.events:
                    hand.first_at = engine.clock()
                    if engine.short:
                        engine.wake.set()
                    events = [*held, *events]  # noqa: PLW2901
                hand.events += len(events)
                replies.write(job.id, events)
                if replies.blocked(job.id):
                    await replies.ready(job.id)

    async def _stopped(self, hand: Hand) -> str:
        """The engine's connection is closed by now."""
        match hand.why:
            case "cancel":
                return await self._end(hand, CANCELLED)
            case "drain" if not hand.told:
                hand.closing = True
                await self._pool.replies.release(hand.job.id, GivenBack("drain"))
                return "handed back"
            case "drain":
                return await self._end(hand, WORKER_STOPS)
            case _:
                return "lost"

    async def _failed(self, hand: Hand, error: BackendError) -> str:
        engine, job = hand.engine, hand.job
        end = End("failed", Failure(error.message, status=error.status, code=error.code, param=error.param))
        if error.kind == "client":
            self._count(hand, "refused")
            return await self._end(hand, end)
        # An engine that cannot be reached is no request's fault. What goes wrong on the way may be: the attempts of one
        # job count as one failure, lest a request that no engine can answer shuts out all others.
        engine.breaker.failed(engine.clock(), by="" if error.kind == "refused" else job.id)
        if error.kind == "refused":
            engine.doubt.set()
        self._pool.telemetry.attempt_ended(engine.name, "broken" if hand.events else error.kind)
        if hand.told:
            return await self._end(hand, end)
        # Not the engine's own words: they may quote the request.
        log.warning("job %s: attempt at %s %s (status %d)", job.id, engine.name, error.kind, error.status)
        return await self._again(hand, end)

    async def _again(self, hand: Hand, end: End) -> str:
        """Gives the job back for another attempt. Another back end may have it at once; the same one only after a
        pause."""
        engine, job, pool = hand.engine, hand.job, self._pool
        most, leave_s = pool.settings.max_attempts, 0.0
        if any(other is not engine and other.takes(job.model) for other in pool.engines):
            leave_s = LEAVE_S
            engine.leave(job.model)
            # Should none of them have a place for it by then.
            asyncio.get_running_loop().call_later(LEAVE_S, engine.wake.set)
        elif job.fails + 1 < most and not pool.stopping:
            try:
                with hand.stoppable():
                    await asyncio.sleep(min(RETRY_MOST_S, RETRY_FIRST_S * 2.0**job.fails))
            except StoppedError:
                return await self._stopped(hand)
        hand.closing = True
        back = GivenBack("error", max_attempts=most, failure=end, leave_s=leave_s)
        outcome = await pool.replies.release(job.id, back)
        if outcome == "ended":
            pool.telemetry.dead_letters.inc()
            return "failed"
        return "again" if outcome == "waiting" else outcome

    async def _end(self, hand: Hand, end: End, *, dead: str = "") -> str:
        hand.closing = True
        outcome = await self._pool.replies.finish(hand.job.id, end, real_tokens=hand.tokens, dead=dead)
        return end.kind if outcome in ("ok", "done") else outcome

    def _count(self, hand: Hand, result: Literal["refused", "cancelled"]) -> None:
        """An attempt that tells nothing of the back end's health."""
        hand.engine.breaker.undecided()
        self._pool.telemetry.attempt_ended(hand.engine.name, result)

    def _tell(self, hand: Hand, outcome: str) -> None:
        job, now_at = hand.job, hand.engine.clock()
        first_s = -1.0 if hand.first_at is None else hand.first_at - hand.started_at
        log.info(
            "job %s %s: lane %s, back end %s, waited %.3f s, first after %.3f s, ran %.3f s, %d events, attempt %d",
            job.id,
            outcome,
            job.lane,
            hand.engine.name,
            job.waited_us / 1e6,
            first_s,
            now_at - hand.started_at,
            hand.events,
            job.fails + 1,
        )

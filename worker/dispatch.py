"""A batch to its back end, one stream a job."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Coroutine, Sequence

import msgspec

from backends.base import BackendError, Beginning, Stream
from backends.guarded import Guarded
from buffer.fold import WHOLE_REPLY, fold
from buffer.heard import Heard, Said, can_go_on, decode_said
from buffer.job import decode_chat
from buffer.records import GivenBack, Granted
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from buffer.tracing import CURRENT
from worker.aftermath import Aftermath
from worker.ends import DEFECT, DONE, UNREADABLE
from worker.hand import Hand, StoppedError
from worker.lesson import learn
from worker.pool import Pool
from worker.reading import read_in_pieces
from worker.telling import Telling

log = logging.getLogger("doublebuffer.worker")


class Dispatch:
    """Runs the jobs of one pool. Its task group is the parent of every job's task."""

    def __init__(self, pool: Pool, tasks: asyncio.TaskGroup) -> None:
        self._pool = pool
        self._tasks = tasks
        self._aftermath = Aftermath(pool)

    def run(self, work: Coroutine[None, None, None]) -> None:
        """Has something done that ends in a batch."""
        self._tasks.create_task(work)

    def batch(self, hands: Sequence[Hand], bodies: Sequence[bytes | None]) -> None:
        """Starts them all in this turn of the loop, so that the engine takes them in together."""
        self._pool.telemetry.batch_size.observe(len(hands))
        for hand, body in zip(hands, bodies, strict=True):
            self._tasks.create_task(self._job(hand, body), name=f"job {hand.job.id}")

    async def _job(self, hand: Hand, body: bytes | None) -> None:
        """One attempt, from its body to its end. Whatever goes wrong in it ends here, with a settled job."""
        if self._pool.telemetry.spans is not None:
            model = hand.engine.upstream(hand.job.model) or hand.job.model
            hand.span = self._pool.telemetry.spans.attempt(hand.trace, hand.job, hand.engine.spec, model)
            CURRENT.set(hand.span)
        try:
            await self._attach(hand)
            outcome = await self._attempt(hand, body)
        except Exception as error:  # noqa: BLE001 - the border of a job: a defect of ours ends this job, not the worker
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("job %s: %s at %s:%s", hand.job.id, type(error).__name__, where.filename, where.lineno)
            hand.engine.breaker.undecided()
            outcome = await self._aftermath.end(hand, DEFECT)
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
        aftermath, engine = self._aftermath, hand.engine
        if body is None:
            engine.breaker.undecided()
            return await self._forgotten(hand)
        try:
            hand.begin(decode_chat(body), await self._heard(hand.job) if hand.job.prefix else None)
        except (msgspec.DecodeError, ValueError):
            self._pool.telemetry.dead_letters.inc()
            engine.breaker.undecided()
            return await aftermath.end(hand, UNREADABLE, dead="The job's body could not be read.")
        if hand.complete:
            # Its worker died with the last word.
            engine.breaker.undecided()
            return await aftermath.end(hand, DONE)
        said_before = hand.begun or not hand.heard.plain
        if said_before and not (engine.backend.continues and can_go_on(hand.chat, hand.heard)):
            return await aftermath.pass_by(hand)
        try:
            with hand.stoppable():
                if said_before:
                    hand.may_read(0)
                if hand.upto:
                    async with read_in_pieces(hand) as beginning:
                        await self._stream(hand, self._answer(hand, beginning))
                else:
                    await self._stream(hand, self._answer(hand))
        except StoppedError:
            aftermath.undecided(hand, "cancelled")
            return await aftermath.stopped(hand)
        except BackendError as error:
            if hand.span is not None:
                hand.span.failed(error.kind, error.status)
            return await aftermath.failed(hand, error)
        learn(hand, self._pool.telemetry)
        return await aftermath.done(hand)

    async def _forgotten(self, hand: Hand) -> str:
        """The store came back empty after it had granted the job. Its gateway puts it there again, for whoever was at
        it; and that one knows no more of it than others."""
        job = hand.job
        hand.closing = True
        said = Said() if job.prefix == WHOLE_REPLY else decode_said(job.prefix)
        return await self._pool.replies.release(job.id, GivenBack("drain", said, job.spent))

    async def _heard(self, job: Granted) -> Heard:
        """What earlier attempts said, where any did. Raises ``msgspec.DecodeError`` or ``ValueError`` on what cannot be
        read."""
        if job.prefix != WHOLE_REPLY:
            heard = Heard(decode_said(job.prefix))
            heard.pieces = job.spent
            return heard
        backoff = Backoff()
        while True:
            try:
                return fold(await self._pool.lanes.reply(job.id)).heard()
            except StoreUnavailable:
                self._pool.away()
                await backoff.wait()

    @staticmethod
    def _answer(hand: Hand, beginning: Beginning | None = None) -> Stream:
        """``beginning``: what the engine has read of the prompt."""
        return hand.engine.backend.chat(
            hand.chat,
            upstream_model=hand.engine.upstream(hand.job.model) or hand.chat.model,
            request_id=hand.job.id,
            said=hand.begun,
            spent=hand.begun_spent,
            beginning=beginning,
        )

    async def _stream(self, hand: Hand, answer: Stream) -> None:
        """Reads the engine's answer into the reply. Leaving it closes the engine's connection."""
        telling = Telling(hand, self._pool)
        try:
            async for events in answer:
                if not telling.take(events):
                    await self._pool.replies.ready(hand.job.id)
                if isinstance(answer, Guarded):
                    await answer.flow(telling.words, telling.take)
                    await self._pool.replies.ready(hand.job.id)
        finally:
            await answer.aclose()
        telling.ended()

    def _tell(self, hand: Hand, outcome: str) -> None:
        job, now_at = hand.job, hand.engine.clock()
        if hand.span is not None:
            hand.span.ended(outcome)
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

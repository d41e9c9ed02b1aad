"""What becomes of an attempt: settled, or given back to another one that goes on from where this one stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

from backends.base import NO_MODEL, OUR_KEY, BackendError
from buffer.heard import Said, can_go_on
from buffer.job import End, Failure
from buffer.records import GivenBack
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from worker.ends import CANCELLED, DONE, NO_RESUME, WORKER_STOPS
from worker.engine import Engine
from worker.hand import Hand, StoppedError
from worker.pool import Pool

log = logging.getLogger("doublebuffer.worker")

RETRY_FIRST_S = 0.1
RETRY_MOST_S = 2.0
REFUSED_FIRST_S = 0.5
REFUSED_MOST_S = 4.0
"""How long a job waits in the store that was refused, with nobody else there for it: other workers are to hear that its
back end is away before they try it."""
LEAVE_S = 2.0
"""How long a back end leaves a job that failed there to others that could take it, whichever worker asks."""


PASSED_BY_S = 30.0
"""The same, of a job that it cannot go on with: an engine that can may have to start first."""
ELSEWHERE_S = 30.0
"""The same, of a job that it refuses for a fault of its own: that will not have gone so soon."""


def refused_s(fails: int) -> float:
    """The same, of one that was refused, after so many failures before."""
    return min(REFUSED_MOST_S, REFUSED_FIRST_S * 2.0**fails)


class Aftermath:
    """Of the jobs of one pool. Its methods give the outcome in a word, for the log."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def done(self, hand: Hand) -> str:
        """The answer is complete."""
        hand.engine.breaker.succeeded()
        self._pool.telemetry.attempt_ended(hand.engine.name, "ok")
        if hand.begun:
            self._pool.telemetry.resumed.inc()
        return await self.end(hand, DONE)

    async def stopped(self, hand: Hand) -> str:
        """Stopped from outside; the engine's connection is closed by now."""
        match hand.why:
            case "cancel":
                return await self.end(hand, CANCELLED)
            case "drain" | "yield" if hand.complete:
                return await self.end(hand, DONE)
            case "drain" | "yield":
                onward = await self._onward(hand)
                if onward is None:
                    return await self.end(hand, WORKER_STOPS)
                return await self._release(hand, GivenBack("drain", onward, hand.spent if onward else 0))
            case _:
                return "lost"

    async def failed(self, hand: Hand, error: BackendError) -> str:
        """The back end did not answer as it should."""
        engine, job = hand.engine, hand.job
        if hand.complete:
            # Only the counts are missing.
            return await self.done(hand)
        end = End("failed", Failure(error.message, status=error.status, code=error.code, param=error.param))
        if error.kind == "client":
            if error.code in (OUR_KEY, NO_MODEL):
                engine.look.set()
                if self._others(hand, hand.begun):
                    return await self._elsewhere(hand, error, end)
            self.undecided(hand, "refused")
            if hand.begun and hand.whole:
                # It takes the request, but not the beginning of an answer.
                back = GivenBack("error", max_attempts=self._pool.settings.max_attempts, failure=end)
                return await self._release(hand, back)
            return await self.end(hand, end)
        # An engine that cannot be reached is no request's fault. What goes wrong on the way may be: the attempts of one
        # job count as one failure, lest a request that no engine can answer shuts out all others.
        self._struck(engine, by="" if error.kind == "refused" else job.id)
        if error.kind == "refused":
            engine.doubt.set()
        elif error.kind == "broken":
            # It may have been the engine's end.
            engine.look.set()
        self._pool.telemetry.attempt_ended(engine.name, "broken" if hand.events else error.kind)
        onward = await self._onward(hand)
        if onward is None:
            return await self.end(hand, end)
        # Not the engine's own words: they may quote the request.
        log.warning("job %s: attempt at %s %s (status %d)", job.id, engine.name, error.kind, error.status)
        return await self._again(hand, onward, end, refused=error.kind == "refused")

    def _struck(self, engine: Engine, *, by: str) -> None:
        now_at = engine.clock()
        was = engine.breaker.state(now_at)
        engine.breaker.failed(now_at, by=by)
        if was != "open" and engine.breaker.state(now_at) == "open":
            self._pool.out_of_service(engine)
            # So that others hear of it.
            engine.look.set()

    async def _elsewhere(self, hand: Hand, error: BackendError, end: End) -> str:
        """The fault is neither the request's nor one that passes: another back end is to have the job."""
        engine, job = hand.engine, hand.job
        if error.code == OUR_KEY or engine.lists(job.model):
            self._struck(engine, by=job.id)
        else:
            # Its operator says that it has the model, and it never did: its other models are none the worse.
            engine.breaker.undecided()
        self._pool.telemetry.attempt_ended(engine.name, "refused")
        log.warning("job %s: attempt at %s %s (status %d)", job.id, engine.name, error.code, error.status)
        self._leave(hand, ELSEWHERE_S)
        most, spent = self._pool.settings.max_attempts, hand.spent if hand.begun else 0
        return await self._release(hand, GivenBack("error", hand.begun, spent, most, end, ELSEWHERE_S))

    async def pass_by(self, hand: Hand) -> str:
        """It cannot go on here from what was said: another back end is to, if there is one that can."""
        hand.engine.breaker.undecided()
        if hand.whole:
            return await self._release(hand, GivenBack("drain"))
        if not can_go_on(hand.chat, hand.heard):
            return await self.end(hand, NO_RESUME)
        if not await self._continues(hand.job.model):
            return await self.end(hand, NO_RESUME)
        # One that can may be busy or away just now. It is waited for as by any job, for the queue timeout.
        self._leave(hand, PASSED_BY_S)
        return await self._release(hand, GivenBack("passed", hand.begun, hand.spent, leave_s=PASSED_BY_S))

    async def end(self, hand: Hand, end: End, *, dead: str = "") -> str:
        """Settles the job. ``dead``: reason of a dead letter."""
        hand.closing = True
        outcome = await self._pool.replies.finish(
            hand.job.id, end, real_tokens=hand.tokens, dead=dead, pace=hand.pace.encoded()
        )
        return end.kind if outcome in ("ok", "done") else outcome

    def undecided(self, hand: Hand, result: Literal["refused", "cancelled"]) -> None:
        """Counts an attempt that tells nothing of the back end's health."""
        hand.engine.breaker.undecided()
        self._pool.telemetry.attempt_ended(hand.engine.name, result)

    async def _onward(self, hand: Hand) -> Said | None:
        """What another attempt is to go on from. None: there must be none, for the client has what no other can lead
        on from."""
        if not hand.events:
            return hand.begun
        if self._pool.settings.resume and can_go_on(hand.chat, hand.heard) and await self._continues(hand.job.model):
            return hand.heard.said()
        return Said() if hand.whole else None

    async def _continues(self, model: str) -> bool:
        """Whether any back end that serves the model could go on, now or when it is back. Before the answer is no, the
        store is asked once more: another worker may just have come."""
        backoff = Backoff()
        while not self._known_to_continue(model):
            try:
                await self._pool.hear()
            except StoreUnavailable:
                self._pool.away()
                await backoff.wait()
            else:
                return self._known_to_continue(model)
        return True

    def _known_to_continue(self, model: str) -> bool:
        if any(engine.backend.continues and engine.upstream(model) for engine in self._pool.engines):
            return True
        return any(state.continues and model in state.queues() for state in self._pool.states)

    def _others(self, hand: Hand, said: Said) -> bool:
        """Whether another back end, of this worker or of another, could take the job as it is now."""
        pool, model, name = self._pool, hand.job.model, hand.engine.name
        for other in pool.engines:
            if other is not hand.engine and other.takes(model, name) and (other.backend.continues or not said):
                return True
        own = {engine.name for engine in pool.engines}
        return any(
            state.name not in own and state.takes(model, name) and (state.continues or not said)
            for state in pool.states
        )

    async def _again(self, hand: Hand, said: Said, end: End, *, refused: bool) -> str:
        """Gives the job back for another attempt. Another back end may have it at once; the same one only after a
        pause, at whichever worker."""
        job, pool = hand.job, self._pool
        most, leave_s = pool.settings.max_attempts, 0.0
        if self._others(hand, said):
            leave_s = LEAVE_S
            self._leave(hand, leave_s)
        elif refused:
            leave_s = refused_s(job.fails)
            self._leave(hand, leave_s)
        elif job.fails + 1 < most and not pool.stopping:
            try:
                with hand.stoppable():
                    await asyncio.sleep(min(RETRY_MOST_S, RETRY_FIRST_S * 2.0**job.fails))
            except StoppedError:
                return await self.stopped(hand)
        spent = hand.spent if said else 0
        return await self._release(hand, GivenBack("error", said, spent, most, end, leave_s))

    @staticmethod
    def _leave(hand: Hand, leave_s: float) -> None:
        """Should none of the others have a place for it by then, this back end is to look again."""
        asyncio.get_running_loop().call_later(leave_s, hand.engine.wake.set)

    async def _release(self, hand: Hand, back: GivenBack) -> str:
        hand.closing = True
        outcome = await self._pool.replies.release(hand.job.id, back)
        if outcome == "ended":
            if back.why == "error":
                self._pool.telemetry.dead_letters.inc()
            return "failed"
        if outcome == "waiting":
            return "again" if back.why == "error" else "handed back"
        return outcome

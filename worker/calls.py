"""Calls for embeddings at one back end: joined from many requests, and taken apart again for each of them."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections import deque
from collections.abc import Sequence
from functools import partial

import msgspec

from backends.base import NO_MODEL, BackendError, Embedded
from buffer.embed import Embed, Vector, decode_embed, length_of
from buffer.job import End, Event, Failure, Usage
from buffer.store import StoreUnavailable
from buffer.timing import Backoff
from worker.desk import Desk, EmbeddingPool, EmbedHand
from worker.endings import Endings
from worker.ends import CANCELLED, DEFECT, DONE, UNREADABLE
from worker.joining import Call, Item, Request, plan_calls, shares

log = logging.getLogger("doublebuffer.worker")

MOST_CALLS = 2
"""Calls of one worker at one back end: while the engine is at one, the next is there already."""
_BY_ONE_INPUT = frozenset({400, 413, 422})
"""Statuses with which an engine refuses a call for a single input's sake."""
_NO_EMBEDDINGS = re.compile(r"not support\b.*\bembedding", re.IGNORECASE)
_TOO_LONG = "context_length_exceeded"


class Calls:
    """At most ``MOST_CALLS`` at a time; what was pulled beyond them waits here. ``tasks`` is the parent of all."""

    def __init__(self, pool: EmbeddingPool, desk: Desk, tasks: asyncio.TaskGroup) -> None:
        self._pool = pool
        self._desk = desk
        self._tasks = tasks
        self._endings = Endings(pool, desk, tasks)
        self._next: deque[Call[EmbedHand]] = deque()
        self._running: dict[Call[EmbedHand], asyncio.Task[None]] = {}
        self._abandoned: set[Call[EmbedHand]] = set()

    @property
    def in_flight(self) -> int:
        return len(self._running)

    @property
    def room(self) -> bool:
        """Whether another call could begin at once."""
        trial = self._desk.breaker.state(self._desk.engine.clock()) == "half-open"
        return not self._next and self.in_flight < (1 if trial else MOST_CALLS)

    async def begin(self, hands: Sequence[EmbedHand]) -> None:
        """Sends off requests that were just pulled."""
        requests: list[Request[EmbedHand]] = []
        for hand, body in zip(hands, await self._bodies([hand.job.id for hand in hands]), strict=True):
            if hand.before is None:
                requests += self._taken(hand, body)
            else:
                self._tasks.create_task(self._begin_after(hand, body), name=f"job {hand.job.id}")
        self._next.extend(plan_calls(requests))
        self._start()

    async def _begin_after(self, hand: EmbedHand, body: bytes | None) -> None:
        """A job that was given back here can be pulled here again before the word that it was given back is read. The
        others of its pull do not wait for that."""
        if hand.before is not None:
            await hand.before.away.wait()
            hand.before = None
            self._pool.replies.drop(hand.job.id)
        self._next.extend(plan_calls(self._taken(hand, body)))
        self._start()

    def _taken(self, hand: EmbedHand, body: bytes | None) -> list[Request[EmbedHand]]:
        """The request of a job, if there is one that can be asked."""
        self._pool.replies.attach(hand.job)
        hand.attached = True
        if hand.why is not None:
            self.stopped(hand)
            return []
        if body is None:
            # The store came back empty since. Its gateway puts the job there again, for whoever was at it.
            self._tasks.create_task(self._endings.hand_back(hand), name=f"job {hand.job.id}")
            return []
        try:
            embed = decode_embed(body)
        except msgspec.DecodeError:
            self._pool.telemetry.dead_letters.inc()
            self._tasks.create_task(self._endings.one(hand, UNREADABLE, dead="The job's body could not be read."))
            return []
        hand.left = len(embed.inputs)
        last = hand.job.fails + 1 >= self._pool.settings.max_attempts
        return [Request(hand, embed, hand.job.model, hand.job.fails, last)]

    async def _bodies(self, ids: Sequence[str]) -> list[bytes | None]:
        """The jobs are ours by now: whatever the store does, they are not let go of."""
        backoff = Backoff()
        while True:
            try:
                return await self._pool.lanes.body(ids)
            except StoreUnavailable:
                self._pool.away()
                await backoff.wait()

    def _start(self) -> None:
        while self._next and len(self._running) < MOST_CALLS:
            call = self._next.popleft()
            self._desk.breaker.started(self._desk.engine.clock())
            task = self._running[call] = self._tasks.create_task(self._run(call), name="embeddings")
            task.add_done_callback(partial(self._over, call))

    def _over(self, call: Call[EmbedHand], task: asyncio.Task[None]) -> None:
        """Also of a call that was abandoned before it had begun to run."""
        abandoned = call in self._abandoned
        self._abandoned.discard(call)
        self._running.pop(call, None)
        if task.cancelled():
            self._desk.breaker.undecided()
            if not abandoned:
                return  # the worker itself is being ended
        self._start()
        self._desk.wake.set()

    async def _run(self, call: Call[EmbedHand]) -> None:
        """One call to its end. Whatever goes wrong in it ends here, with settled jobs."""
        try:
            await self._ask(call, call.items)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if call not in self._abandoned or task is None or task.uncancel() > 0:
                raise
            self._desk.breaker.undecided()
        except Exception as error:  # noqa: BLE001 - the border of a call: a defect of ours ends its jobs, not the worker
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("embeddings: %s at %s:%s", type(error).__name__, where.filename, where.lineno)
            self._desk.breaker.undecided()
            self._endings.all([hand for hand in call.owners() if hand.live], DEFECT)

    async def _ask(self, call: Call[EmbedHand], items: Sequence[Item[EmbedHand]]) -> None:
        """Asks for inputs whose clients are still there. What is refused for one input's sake is asked in halves."""
        engine, breaker = self._desk.engine, self._desk.breaker
        items = [item for item in items if item.owner.live]
        if not items:
            breaker.undecided()
            return
        asked = msgspec.structs.replace(call.form, inputs=[item.input for item in items])
        began_at = engine.clock()
        try:
            found = await engine.backend.embed(asked, upstream_model=engine.upstream(call.queue) or call.queue)
        except BackendError as error:
            if _splits(error, call.form, items):
                middle = len(items) // 2
                await self._ask(call, items[:middle])
                await self._ask(call, items[middle:])
            else:
                self._failed(call, items, error)
            return
        breaker.succeeded()
        log.info("embeddings: %d inputs, back end %s, ran %.3f s", len(items), engine.name, engine.clock() - began_at)
        self._hand_out(items, found)

    def _hand_out(self, items: Sequence[Item[EmbedHand]], found: Embedded) -> None:
        tokens = shares(found.usage.prompt, [length_of(item.input) for item in items])
        by_hand: dict[EmbedHand, list[Event]] = {}
        for item, vector, count in zip(items, found.vectors, tokens, strict=True):
            by_hand.setdefault(item.owner, []).append(Vector(item.index, vector))
            item.owner.tokens = (item.owner.tokens or 0) + count
        for hand, vectors in by_hand.items():
            hand.prompt_ns += found.usage.prompt_ns or 0
            hand.load_ns += found.usage.load_ns or 0
            self._tasks.create_task(self._give(hand, vectors), name=f"job {hand.job.id}")

    async def _give(self, hand: EmbedHand, vectors: list[Event]) -> None:
        """Sends vectors on; with the last of them the job is done."""
        replies = self._pool.replies
        await replies.ready(hand.job.id)
        if not hand.live:
            return
        replies.write(hand.job.id, vectors)
        hand.events += len(vectors)
        hand.left -= len(vectors)
        if hand.left == 0:
            usage = Usage(hand.tokens or 0, 0, prompt_ns=hand.prompt_ns or None, load_ns=hand.load_ns or None)
            replies.write(hand.job.id, [usage])
            self._pool.telemetry.attempt_ended(self._desk.engine.name, "ok")
            await self._endings.one(hand, DONE)

    def _failed(self, call: Call[EmbedHand], items: Sequence[Item[EmbedHand]], error: BackendError) -> None:
        desk, engine = self._desk, self._desk.engine
        hands = [hand for hand in {item.owner: None for item in items} if hand.live]
        failure = Failure(error.message, status=error.status, code=error.code, param=error.param)
        for _ in hands:
            self._pool.telemetry.attempt_ended(engine.name, "failed" if error.kind == "failed" else "refused")
        if error.kind == "client" and not self._endings.passes_on(call.queue, error):
            desk.breaker.undecided()
            self._endings.all(hands, End("failed", failure))
            return
        if error.code == NO_MODEL and not engine.lists(call.queue):
            desk.breaker.undecided()
        else:
            desk.breaker.failed(engine.clock())
        if error.kind == "refused":
            engine.doubt.set()
        # Not the engine's own words: they may quote the request.
        log.warning("embeddings: %d requests at %s %s (status %d)", len(hands), engine.name, error.kind, error.status)
        self._endings.again(call.queue, hands, End("failed", failure), refused=error.kind == "refused")

    # --- stopped from outside

    def stopped(self, hand: EmbedHand) -> None:
        """The client left, another owns the job, or this worker stops."""
        if not hand.closing:
            self._tasks.create_task(self._let_go(hand), name=f"job {hand.job.id}")

    async def _let_go(self, hand: EmbedHand) -> None:
        """Calls that nobody wants any more are closed first; those of others go on."""
        tasks = []
        for call, task in self._running.items():
            if call not in self._abandoned and not any(item.owner.live for item in call.items):
                self._abandoned.add(call)
                task.cancel()
                tasks.append(task)
        if tasks:
            await asyncio.wait(tasks)
        if hand.closing:
            return
        match hand.why:
            case "cancel":
                self._pool.telemetry.attempt_ended(self._desk.engine.name, "cancelled")
                await self._endings.one(hand, CANCELLED)
            case "drain" | "yield":
                await self._endings.hand_back(hand)
            case _:
                self._endings.put_away(hand)


def _splits(error: BackendError, form: Embed, items: Sequence[Item[EmbedHand]]) -> bool:
    """Whether asking for fewer inputs at a time may help."""
    if error.kind != "client" or error.status not in _BY_ONE_INPUT or len(items) == 1:
        return False
    if error.code == _TOO_LONG and form.truncate:
        # A single one that is too long can be cut.
        return True
    # A request is one: it fails as a whole.
    return len({item.owner for item in items}) > 1 and not _NO_EMBEDDINGS.search(error.message)

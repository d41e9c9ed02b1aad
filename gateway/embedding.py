"""A request for embeddings, out and back: it waits in a queue of its own, and is answered in one piece."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from buffer.embed import Vector, encode_embed, length_of
from buffer.follower import Follower
from buffer.job import End, Failure, Usage
from buffer.records import NewJob, Submitted
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Api, Outcome, Telemetry
from gateway.call import JSON, Call, Receive, Send, answer
from gateway.catalog import STORE_AWAY, Catalog
from gateway.client import until_left
from gateway.dialects.embeddings import Asked, Figures
from gateway.dialects.errors import failure_of, headers
from gateway.ending import expire_later, outcome_of
from gateway.intake import owner_of, user_of
from gateway.models import Model
from gateway.pools import Pool
from gateway.refusal import ClientLeft, Refusal
from policy.admission import over_share
from policy.estimate import Rate, estimate_tokens, retry_after_s

QUEUE_LIMIT = 20_000
"""Inputs that may wait in a pool."""
TIDY_EVERY_S = 0.5
_LARGE_BYTES = 256 * 1024
"""Vectors above this are written out beside the loop."""
_INCOMPLETE = End("failed", Failure("The back end did not answer every input."))


@dataclass(frozen=True, slots=True)
class EmbedForm:
    """One way to ask for embeddings."""

    api: Api
    parse: Callable[[bytes], Asked]
    """Raises ``BadRequest``."""
    answer: Callable[[Asked, list[bytes], Figures], bytes]
    error: Callable[[Failure], bytes]
    unknown_model: Callable[[str], Failure]


@dataclass(frozen=True, slots=True)
class EmbedOrder:
    """A job ready to be submitted, and what its gateway keeps of it."""

    asked: Asked
    form: EmbedForm
    job: NewJob
    pool: Pool


class Embeddings:
    """Carries the embeddings of this gateway. ``tidy`` has to run beside."""

    def __init__(self, settings: Settings, catalog: Catalog, telemetry: Telemetry) -> None:
        self._settings = settings
        self._catalog = catalog
        self._telemetry = telemetry
        self._answered = Rate()
        self._over: list[tuple[Pool, str]] = []
        self._any_over = asyncio.Event()

    def order(self, asked: Asked, form: EmbedForm, model: Model, pool: Pool, call: Call) -> EmbedOrder:
        """The order that ``asked`` amounts to, sent by ``call`` for ``model``. ``pool``: of the embeddings."""
        settings, inputs = self._settings, asked.embed.inputs
        job = NewJob(
            id=secrets.token_hex(16),
            model=model.queue,
            name=model.name,
            lane="normal",
            user=user_of(call),
            inbox="",
            body=encode_embed(asked.embed),
            max_wait_us=round(settings.max_wait_seconds * 1e6),
            timeout_us=round((settings.queue_timeout_seconds + model.comes_in_s) * 1e6),
            cost=max(1, sum(estimate_tokens(length_of(one)) for one in inputs)),
            kv=len(inputs),
            inputs=len(inputs),
            owner=owner_of(call),
            trace=call.span.trace if call.span is not None else "",
        )
        if call.span is not None:
            call.span.job(job)
        return EmbedOrder(asked, form, job, pool)

    async def run(self, order: EmbedOrder, receive: Receive, send: Send, *, arrived_at: float) -> Outcome:
        """Sends the answer. Raises ``Refusal`` before anything was sent.

        However it ends, no job is left behind.
        """
        asked, form, job, pool = order.asked, order.form, order.job, order.pool
        if not asked.embed.inputs:
            figures = Figures(Usage(0, 0), time.perf_counter() - arrived_at)
            await answer(send, 200, JSON, form.answer(asked, [], figures))
            return "ok"
        submitted_at = time.perf_counter()
        follower = await self._submit(job, pool)
        end: End | None = None
        overdue: asyncio.TimerHandle | None = None
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(until_left(receive))
                overdue = expire_later(group, pool, job, follower)
                vectors, usage, end = await _gathered(follower, len(asked.embed.inputs))
                overdue.cancel()
                waited_s = max(0.0, (follower.started_at or submitted_at) - submitted_at)
                figures = Figures(usage, time.perf_counter() - arrived_at, waited_s)
                status, body, more = await _told(order, vectors, figures, end)
                about = [(b"x-doublebuffer-id", job.id.encode()), *more]
                if follower.started:
                    about += self._catalog.about(follower.started, asked.embed.model)
                await answer(send, status, JSON, body, about)
                watcher.cancel()
        except* ClientLeft:
            pass
        finally:
            if overdue is not None:
                overdue.cancel()
            follower.close()
            if self._telemetry.spans is not None:
                self._telemetry.spans.waited(job, submitted_at, follower.started_at)
        if end is None:
            return "cancelled"
        self._over.append((pool, job.id))
        self._any_over.set()
        self._answered.add(time.monotonic(), len(asked.embed.inputs))
        self._telemetry.tokens["prompt"].inc(usage.prompt)
        return outcome_of(end)

    async def tidy(self) -> None:
        """Drops stored answers that clients have: a file's vectors are megabytes, and nobody comes back for them."""
        while True:
            await self._any_over.wait()
            self._any_over.clear()
            await asyncio.sleep(TIDY_EVERY_S)
            over, self._over = self._over, []
            by_pool: dict[str, tuple[Pool, list[str]]] = {}
            for pool, id in over:
                by_pool.setdefault(pool.name, (pool, []))[1].append(id)
            for pool, ids in by_pool.values():
                with suppress(StoreUnavailable):  # they have a lifetime all the same
                    await pool.lanes.forget(ids)

    async def _submit(self, job: NewJob, pool: Pool) -> Follower:
        if not pool.inbox.name:  # the store has been away since the start
            raise Refusal(STORE_AWAY, "refused")
        try:
            submitted, follower = await pool.inbox.submit(job, limit=QUEUE_LIMIT)
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None
        if follower is None:
            raise Refusal(self._full(submitted), "refused")
        return follower

    def _full(self, submitted: Submitted) -> Failure:
        rate = self._answered.per_s(time.monotonic())
        if submitted.status == "over":
            over = over_share(submitted.waiting, submitted.users, QUEUE_LIMIT, rate)
            return Failure(over.reason, over.status, "over_share", retry_after_s=over.retry_after_s)
        wait_s = retry_after_s(max(1.0, submitted.waiting / 2), rate)
        message = f"The queue of embeddings is full ({submitted.waiting} inputs are waiting); try again later."
        return Failure(message, 503, "queue_full", retry_after_s=wait_s)


async def _told(
    order: EmbedOrder, vectors: list[bytes], figures: Figures, end: End
) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers."""
    failure = failure_of(end)
    if failure is not None:
        return failure.status, order.form.error(failure), headers(failure)
    if sum(map(len, vectors)) > _LARGE_BYTES:
        return 200, await asyncio.to_thread(order.form.answer, order.asked, vectors, figures), []
    return 200, order.form.answer(order.asked, vectors, figures), []


async def _gathered(follower: Follower, count: int) -> tuple[list[bytes], Usage, End]:
    """The vectors of ``count`` inputs in order, what they cost, and the end."""
    vectors: dict[int, bytes] = {}
    usage = Usage(0, 0)
    while not isinstance(item := await follower.next(), End):
        # The client has seen nothing: should a worker die, another may begin anew.
        follower.given = 0
        for event in item:
            if isinstance(event, Vector):
                vectors[event.index] = event.data
            elif isinstance(event, Usage):
                usage = event
    if item.kind == "done" and vectors.keys() != set(range(count)):
        item = _INCOMPLETE
    return [vectors[index] for index in sorted(vectors)], usage, item

"""A job's way out and its answer's way back: submit it, follow it, cancel it if its client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

import msgspec

from buffer.follower import Follower
from buffer.job import End, Failure, Usage
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Outcome, Telemetry
from gateway.answering import Answering, Stays, outlived
from gateway.catalog import STORE_AWAY, Catalog
from gateway.client import Client, until_left, while_there
from gateway.delivery import Delivery, Timing
from gateway.intake import Intake, Order
from gateway.merged import Merged
from gateway.pools import Pool
from gateway.refusal import ClientLeft, Refusal
from gateway.titles import Titles

DETACHED_FIRST_BYTE_S = 0.25
"""Then a client that may leave has the headers at the latest, and by them the id to come back with."""


class Relay:
    """Carries the answers of all jobs of this gateway."""

    def __init__(
        self, settings: Settings, catalog: Catalog, intake: Intake, telemetry: Telemetry, timing: Timing
    ) -> None:
        self._catalog = catalog
        self._intake = intake
        self._telemetry = telemetry
        self._queue_limit = settings.queue_limit
        self._queue_timeout_s = settings.queue_timeout_seconds
        self._timing = timing
        self._detached_timing = replace(timing, first_byte_s=min(timing.first_byte_s, DETACHED_FIRST_BYTE_S))
        self._titles = Titles(timing.title_least_s, timing.title_most_s)

    async def run(
        self, order: Order, client: Client, *, more: Sequence[Order] = (), stays: Stays | None = None
    ) -> tuple[Outcome, bool]:
        """Sends the answer to ``order``. Gives how it ended, and whether the connection has to be broken off now.

        ``more``: what else the same request asks; the answers are sent as one. ``stays``: see ``Stays``; None: no job
        is left behind, however it ends, wherever it is cancelled. Raises ``Refusal`` before anything was sent.
        """
        if order.title and stays is None and not await while_there(client.receive, self._titles.wait(order.job.user)):
            return "cancelled", False
        if order.job.lane == "background":
            return await self._follow([order, *more], client, stays)
        with self._titles.chat(order.job.user):
            return await self._follow([order, *more], client, stays)

    async def join(self, answer: Answering, client: Client) -> tuple[Outcome, bool] | None:
        """Sends the answer of jobs that another request made. None: the client left, and nothing was done about them.
        Else as ``run``.
        """
        end, breaks, _ = await self._deliver(answer, client)
        return None if end is None else (outcome_of(end), breaks)

    async def _follow(self, orders: Sequence[Order], client: Client, stays: Stays | None) -> tuple[Outcome, bool]:
        submitted_at = time.perf_counter()
        followers = await self._submit_all(orders)
        job = orders[0].job
        answer = Answering(
            job.id,
            job.lane,
            orders[0].chat,
            followers,
            submitted_at,
            det=job.det,
            on_first=lambda: self._started(orders),
            timers=lambda group: list(map(partial(self._expire_later, group), orders, followers)),
        )
        try:
            end, breaks, usages = await self._deliver(answer, client)
            if end is None and stays is not None and await stays():
                end, usages = await outlived(followers, answer.on_first)
            if end is None:
                for follower in followers:
                    _take_back(follower)
        finally:
            for order, follower in zip(orders, followers, strict=True):
                follower.close()
                if follower.started_at is not None:
                    waited_s = max(0.0, follower.started_at - submitted_at)
                    self._telemetry.queue_wait[order.job.lane].observe(waited_s)
        if end is None:
            return "cancelled", False
        for order, usage in zip(orders, usages, strict=True):
            self._intake.ended(order, usage)
            self._count_tokens(usage)
        return outcome_of(end), breaks

    async def _deliver(self, answer: Answering, client: Client) -> tuple[End | None, bool, Sequence[Usage | None]]:
        """The end (None: the client left before it), whether the connection has to be broken off, and what each job
        used.
        """
        chat, sources, form = answer.chat, answer.sources, client.form
        merged = Merged(sources, chat.n) if len(sources) > 1 else None
        if merged is not None:
            chat = msgspec.structs.replace(chat, n=chat.n * len(sources))
        delivery = Delivery(
            source=merged or sources[0],
            form=form,
            send=client.send,
            headers=[(b"x-doublebuffer-id", answer.id.encode()), (b"x-doublebuffer-lane", answer.lane.encode())],
            lane=answer.lane,
            arrived_at=client.arrived_at,
            telemetry=self._telemetry,
            submitted_at=answer.submitted_at,
            on_first=answer.on_first,
            about=partial(self._catalog.about, name=chat.model),
        )
        end: End | None = None
        breaks = False
        timers: Sequence[asyncio.TimerHandle] = ()
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(until_left(client.receive))
                timers = answer.timers(group)
                if merged is not None:
                    merged.open(group)
                if chat.stream:
                    writer = form.stream(chat, answer.id, time.time(), client.is_open_webui)
                    timing = self._detached_timing if answer.det else self._timing
                    end, breaks = await delivery.stream(writer, timing)
                else:
                    end = await delivery.whole(form.whole(chat, answer.id, time.time()))
                for timer in timers:
                    timer.cancel()
                watcher.cancel()
        except* ClientLeft:
            pass
        finally:
            for timer in timers:
                # It would hold on to the whole chat until then.
                timer.cancel()
        return end, breaks, [delivery.usage] if merged is None else merged.usages

    def _started(self, orders: Sequence[Order]) -> None:
        for order in orders:
            self._intake.started(order)

    async def _submit_all(self, orders: Sequence[Order]) -> list[Follower]:
        """All of them, or none: where one is refused, the others are taken back."""
        followers: list[Follower] = []
        with ExitStack() as taken_back:
            for order in orders:
                follower = await self._submit(order)
                taken_back.callback(_take_back, follower)
                followers.append(follower)
            taken_back.pop_all()
        return followers

    async def _submit(self, order: Order) -> Follower:
        inbox = order.pool.inbox
        if not inbox.name:  # the store has been away since the start
            raise Refusal(STORE_AWAY, "refused")
        try:
            submitted, follower = await inbox.submit(
                order.job, limit=self._queue_limit, whole=not order.chat.stream, chat=order.chat
            )
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None
        if follower is None:
            raise Refusal(self._intake.full(submitted), "refused")
        return follower

    def _expire_later(self, group: asyncio.TaskGroup, order: Order, follower: Follower) -> asyncio.TimerHandle:
        """Whoever pulls a job that is too old ends it; but while all engines are busy, nobody pulls."""

        def overdue() -> None:
            if follower.started is None and not follower.closed:
                group.create_task(expire(order.pool, order.job.id, self._queue_timeout_s))

        return asyncio.get_running_loop().call_later(self._queue_timeout_s, overdue)

    def _count_tokens(self, usage: Usage | None) -> None:
        if usage is None:
            return
        self._telemetry.tokens["prompt"].inc(usage.prompt)
        self._telemetry.tokens["completion"].inc(usage.completion)
        if usage.cached:
            self._telemetry.tokens["cached"].inc(usage.cached)


async def expire(pool: Pool, id: str, waited_s: float) -> None:
    """Ends a job that has not started in time; its client is told as of any other end."""
    failure = Failure(f"The request waited {waited_s:g} s without its turn coming.", 503, "queue_timeout")
    with suppress(StoreUnavailable):  # the inbox sees to the jobs of a store that is away
        await pool.lanes.cancel(id, "expired", End("expired", failure))


def _take_back(follower: Follower) -> None:
    follower.det = False
    follower.close()


def outcome_of(end: End) -> Outcome:
    """How metrics count an end."""
    if end.kind == "done":
        return "ok"
    if end.kind != "failed":
        return end.kind
    client_error = end.failure is not None and 400 <= end.failure.status < 500 and end.failure.status != 429
    return "client_error" if client_error else "backend_error"

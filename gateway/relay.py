"""A job's way out and its answer's way back: submit it, follow it, cancel it if its client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import msgspec

from buffer.follower import Follower
from buffer.job import End, Usage
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Api, Outcome, Telemetry
from gateway.answering import Answering, Outlives, Outliving, outlived
from gateway.catalog import STORE_AWAY, Catalog
from gateway.client import Client, until_left, while_there
from gateway.delivery import Delivery, Timing
from gateway.ending import expire_later, outcome_of
from gateway.intake import Intake, Order
from gateway.merged import Merged
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
        self._timing = timing
        self._detached_timing = replace(timing, first_byte_s=min(timing.first_byte_s, DETACHED_FIRST_BYTE_S))
        self.outliving = Outliving()
        """Has to run beside."""
        self._titles = Titles(timing.title_least_s, timing.title_most_s)

    async def run(
        self, order: Order, client: Client, *, more: Sequence[Order] = (), outlives: Outlives | None = None
    ) -> tuple[Outcome | None, bool]:
        """Sends the answer to ``order``. Gives how it ended, and whether the connection has to be broken off now.

        ``more``: what else the same request asks; the answers are sent as one. ``outlives``: None: no job is left
        behind, however it ends, wherever it is cancelled. Else the outcome may be None: the client has left, the jobs
        have not ended, and will be counted when they do. Raises ``Refusal`` before anything was sent.
        """
        waits = order.title and outlives is None
        if waits and not await while_there(client.receive, self._titles.wait(order.job.user)):
            return "cancelled", False
        if order.job.lane == "background":
            return await self._follow([order, *more], client, outlives)
        with self._titles.chat(order.job.user):
            return await self._follow([order, *more], client, outlives)

    async def join(self, answer: Answering, client: Client) -> tuple[Outcome, bool] | None:
        """Sends the answer of jobs that another request made. None: the client left, and nothing was done about them.
        Else as ``run``.
        """
        end, breaks, _ = await self._deliver(answer, client)
        return None if end is None else (outcome_of(end), breaks)

    async def _follow(
        self, orders: Sequence[Order], client: Client, outlives: Outlives | None
    ) -> tuple[Outcome | None, bool]:
        self._intake.check(orders)
        submitted_at = time.perf_counter()
        followers = await self._submit_all(orders)
        job = orders[0].job
        answer = Answering(
            job.id,
            job.lane,
            orders[0].chat,
            followers,
            submitted_at,
            client.created,
            det=outlives is not None and outlives.det,
            on_first=lambda: self._started(orders, followers),
            timers=lambda group: self._expire_later(group, orders, followers),
        )
        left_behind = False
        try:
            end, breaks, usages = await self._deliver(answer, client)
            if end is None and outlives is not None and await outlives.stays():
                api = client.form.api
                work = partial(self._outlive, orders, followers, outlives, api, submitted_at)
                left_behind = self.outliving.go_on(work)
            elif end is None:
                for follower in followers:
                    _take_back(follower)
        finally:
            if not left_behind:
                self._close(orders, followers, submitted_at)
        if end is None:
            return None if left_behind else "cancelled", False
        self._ended(orders, usages)
        if outlives is not None:
            await outlives.ended(end)
        return outcome_of(end), breaks

    async def _outlive(
        self,
        orders: Sequence[Order],
        followers: Sequence[Follower],
        outlives: Outlives,
        api: Api,
        submitted_at: float,
    ) -> None:
        """Looks after jobs whose client has left, to their end."""
        try:
            end, usages = await outlived(followers, lambda: self._started(orders, followers))
        finally:
            self._close(orders, followers, submitted_at)
        self._ended(orders, usages)
        self._telemetry.request_ended(api, orders[0].job.lane, outcome_of(end))
        await outlives.ended(end)

    def _close(self, orders: Sequence[Order], followers: Sequence[Follower], submitted_at: float) -> None:
        for order, follower in zip(orders, followers, strict=True):
            follower.close()
            self._intake.gone(order)
            if follower.started_at is not None:
                waited_s = max(0.0, follower.started_at - submitted_at)
                self._telemetry.queue_wait[order.job.lane].observe(waited_s)
            if self._telemetry.spans is not None:
                self._telemetry.spans.waited(order.job, submitted_at, follower.started_at)

    def _ended(self, orders: Sequence[Order], usages: Sequence[Usage | None]) -> None:
        for order, usage in zip(orders, usages, strict=True):
            self._intake.ended(order, usage)
            self._count_tokens(usage)

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
                # The figures of Ollama's answers count from here.
                created = time.time() if form.api == "ollama" else answer.created
                if chat.stream:
                    writer = form.stream(chat, answer.id, created, client.is_open_webui)
                    timing = self._detached_timing if answer.det else self._timing
                    end, breaks = await delivery.stream(writer, timing)
                else:
                    end = await delivery.whole(form.whole(chat, answer.id, created))
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

    def _started(self, orders: Sequence[Order], followers: Sequence[Follower]) -> None:
        for order, follower in zip(orders, followers, strict=True):
            self._intake.started(order, follower.started or "")

    async def _submit_all(self, orders: Sequence[Order]) -> list[Follower]:
        """All of them, or none: where one is refused, the others are taken back."""
        followers: list[Follower] = []
        with ExitStack() as taken_back:
            for order in orders:
                follower = await self._submit(order)
                taken_back.callback(self._intake.gone, order)
                taken_back.callback(_take_back, follower)
                followers.append(follower)
            taken_back.pop_all()
        return followers

    async def _submit(self, order: Order) -> Follower:
        inbox = order.pool.inbox
        if not inbox.name:  # the store has been away since the start
            raise Refusal(STORE_AWAY, "refused")
        self._intake.sent(order)
        follower: Follower | None = None
        try:
            submitted, follower = await inbox.submit(
                order.job, limit=self._queue_limit, whole=not order.chat.stream, chat=order.chat
            )
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None
        finally:
            if follower is None:
                self._intake.gone(order)
        if follower is None:
            raise Refusal(self._intake.full(submitted), "refused")
        self._intake.waits(submitted.waiting)
        follower.on_start = partial(self._intake.began, order)
        if follower.started_at is not None:
            follower.on_start()
        return follower

    @staticmethod
    def _expire_later(
        group: asyncio.TaskGroup, orders: Sequence[Order], followers: Sequence[Follower]
    ) -> list[asyncio.TimerHandle]:
        both = zip(orders, followers, strict=True)
        return [expire_later(group, order.pool, order.job, follower) for order, follower in both]

    def _count_tokens(self, usage: Usage | None) -> None:
        if usage is None:
            return
        self._telemetry.tokens["prompt"].inc(usage.prompt)
        self._telemetry.tokens["completion"].inc(usage.completion)
        if usage.cached:
            self._telemetry.tokens["cached"].inc(usage.cached)


def _take_back(follower: Follower) -> None:
    follower.det = False
    follower.close()

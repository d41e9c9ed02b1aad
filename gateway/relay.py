"""A job's way out and its answer's way back: submit it, follow it, cancel it if its client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack, suppress

import msgspec

from buffer.follower import Follower
from buffer.job import End, Failure, Usage
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Outcome, Telemetry
from gateway.call import Call, Receive, Send
from gateway.catalog import STORE_AWAY
from gateway.delivery import Delivery, Timing
from gateway.forms import Form
from gateway.intake import Intake, Order
from gateway.merged import Merged
from gateway.pools import Pool
from gateway.refusal import ClientLeft, Refusal
from gateway.titles import Titles


class Relay:
    """Carries the answers of all jobs of this gateway."""

    def __init__(self, settings: Settings, intake: Intake, telemetry: Telemetry, timing: Timing) -> None:
        self._intake = intake
        self._telemetry = telemetry
        self._queue_limit = settings.queue_limit
        self._queue_timeout_s = settings.queue_timeout_seconds
        self._timing = timing
        self._titles = Titles(timing.title_least_s, timing.title_most_s)

    async def run(
        self,
        order: Order,
        form: Form,
        call: Call,
        receive: Receive,
        send: Send,
        *,
        arrived_at: float,
        more: Sequence[Order] = (),
    ) -> tuple[Outcome, bool]:
        """Sends the answer to ``order``. Gives how it ended, and whether the connection has to be broken off now.

        ``more``: what else the same request asks; the answers are sent as one. Raises ``Refusal`` before anything was
        sent. However it ends, wherever it is cancelled, no job is left behind.
        """
        if order.title and not await _while_there(receive, self._titles.wait(order.job.user)):
            return "cancelled", False
        if order.job.lane == "background":
            return await self._follow([order, *more], form, call, receive, send, arrived_at=arrived_at)
        with self._titles.chat(order.job.user):
            return await self._follow([order, *more], form, call, receive, send, arrived_at=arrived_at)

    async def _follow(
        self, orders: Sequence[Order], form: Form, call: Call, receive: Receive, send: Send, *, arrived_at: float
    ) -> tuple[Outcome, bool]:
        submitted_at = time.perf_counter()
        followers = await self._submit_all(orders)
        job, chat = orders[0].job, orders[0].chat
        merged = Merged(followers, chat.n) if len(followers) > 1 else None
        if merged is not None:
            chat = msgspec.structs.replace(chat, n=chat.n * len(followers))
        delivery = Delivery(
            source=merged or followers[0],
            form=form,
            send=send,
            headers=[(b"x-doublebuffer-id", job.id.encode()), (b"x-doublebuffer-lane", job.lane.encode())],
            lane=job.lane,
            arrived_at=arrived_at,
            telemetry=self._telemetry,
            submitted_at=submitted_at,
            on_first=lambda: self._started(orders),
        )
        end: End | None = None
        breaks = False
        overdue: list[asyncio.TimerHandle] = []
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(until_left(receive))
                for order, follower in zip(orders, followers, strict=True):
                    overdue.append(self._expire_later(order, follower, group))
                if merged is not None:
                    merged.open(group)
                if chat.stream:
                    writer = form.stream(chat, job.id, time.time(), _is_open_webui(call))
                    end, breaks = await delivery.stream(writer, self._timing)
                else:
                    end = await delivery.whole(form.whole(chat, job.id, time.time()))
                for timer in overdue:
                    timer.cancel()
                watcher.cancel()
        except* ClientLeft:
            pass
        finally:
            for timer in overdue:
                # It would hold on to the whole chat until then.
                timer.cancel()
            for order, follower in zip(orders, followers, strict=True):
                follower.close()
                if follower.started_at is not None:
                    waited_s = max(0.0, follower.started_at - submitted_at)
                    self._telemetry.queue_wait[order.job.lane].observe(waited_s)
        if end is None:
            return "cancelled", False
        usages = [delivery.usage] if merged is None else merged.usages
        for order, usage in zip(orders, usages, strict=True):
            self._intake.ended(order, usage)
        self._count_tokens(delivery.usage)
        return outcome_of(end), breaks

    def _started(self, orders: Sequence[Order]) -> None:
        for order in orders:
            self._intake.started(order)

    async def _submit_all(self, orders: Sequence[Order]) -> list[Follower]:
        """All of them, or none: where one is refused, the others are taken back."""
        followers: list[Follower] = []
        with ExitStack() as taken_back:
            for order in orders:
                follower = await self._submit(order)
                taken_back.callback(follower.close)
                followers.append(follower)
            taken_back.pop_all()
        return followers

    async def _submit(self, order: Order) -> Follower:
        inbox = order.pool.inbox
        if not inbox.name:  # the store has been away since the start
            raise Refusal(STORE_AWAY, "refused")
        try:
            submitted, follower = await inbox.submit(order.job, limit=self._queue_limit, whole=not order.chat.stream)
        except StoreUnavailable:
            raise Refusal(STORE_AWAY, "refused") from None
        if follower is None:
            raise Refusal(self._intake.full(submitted), "refused")
        return follower

    def _expire_later(self, order: Order, follower: Follower, group: asyncio.TaskGroup) -> asyncio.TimerHandle:
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


async def until_left(receive: Receive) -> None:
    """Raises ``ClientLeft`` once the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientLeft


async def _while_there(receive: Receive, waiting: Awaitable[None]) -> bool:
    """Waits; False as soon as the client leaves."""
    there = False
    try:
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(until_left(receive))
            await waiting
            there = True
            watcher.cancel()
    except* ClientLeft:
        pass
    return there


async def expire(pool: Pool, id: str, waited_s: float) -> None:
    """Ends a job that has not started in time; its client is told as of any other end."""
    failure = Failure(f"The request waited {waited_s:g} s without its turn coming.", 503, "queue_timeout")
    with suppress(StoreUnavailable):  # the inbox sees to the jobs of a store that is away
        await pool.lanes.cancel(id, "expired", End("expired", failure))


def _is_open_webui(call: Call) -> bool:
    agent = call.header(b"user-agent").lower()
    if "open-webui" in agent or "openwebui" in agent:
        return True
    return any(name.startswith(b"x-openwebui-") for name in call.headers)


def outcome_of(end: End) -> Outcome:
    """How metrics count an end."""
    if end.kind == "done":
        return "ok"
    if end.kind != "failed":
        return end.kind
    client_error = end.failure is not None and 400 <= end.failure.status < 500 and end.failure.status != 429
    return "client_error" if client_error else "backend_error"

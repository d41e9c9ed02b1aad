"""Jobs on their way out and at their end: submitted under a gateway's inbox, and what is learned of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from buffer.follower import Follower
from buffer.job import Usage
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.telemetry import Telemetry
from gateway.catalog import STORE_AWAY
from gateway.ending import Overdue
from gateway.intake import Intake, Order
from gateway.refusal import Refusal


class Sending:
    """``go_on``: does something beside everything else."""

    def __init__(
        self,
        settings: Settings,
        intake: Intake,
        telemetry: Telemetry,
        go_on: Callable[[Callable[[], Coroutine[Any, Any, object]]], bool],
    ) -> None:
        self._intake = intake
        self._telemetry = telemetry
        self._queue_limit = settings.queue_limit
        self._overdue = Overdue(go_on)

    async def submit_all(self, orders: Sequence[Order]) -> list[Follower]:
        """All of them, or none: where one is refused, the others are taken back."""
        followers: list[Follower] = []
        try:
            for order in orders:
                follower = await self._submit(order)
                followers.append(follower)
        except BaseException:
            for order, follower in zip(orders, followers, strict=False):
                take_back(follower)
                self._intake.gone(order)
            raise
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

    def expires(self, orders: Sequence[Order], followers: Sequence[Follower]) -> None:
        """From now on they may wait as long as jobs may. Whoever pulls one that is too old ends it; but while all
        engines are busy, nobody pulls.
        """
        for order, follower in zip(orders, followers, strict=True):
            self._overdue.add(order.pool, order.job, follower)

    def waited(self, orders: Sequence[Order]) -> None:
        """Their client waits no more."""
        for order in orders:
            self._overdue.drop(order.job)

    def _count_tokens(self, usage: Usage | None) -> None:
        if usage is None:
            return
        self._telemetry.tokens["prompt"].inc(usage.prompt)
        self._telemetry.tokens["completion"].inc(usage.completion)
        if usage.cached:
            self._telemetry.tokens["cached"].inc(usage.cached)

    def started(self, orders: Sequence[Order], followers: Sequence[Follower]) -> None:
        for order, follower in zip(orders, followers, strict=True):
            self._intake.started(order, follower.started or "")

    def close(self, orders: Sequence[Order], followers: Sequence[Follower], submitted_at: float) -> None:
        for order, follower in zip(orders, followers, strict=True):
            follower.close()
            self._intake.gone(order)
            if follower.started_at is not None:
                waited_s = max(0.0, follower.started_at - submitted_at)
                self._telemetry.queue_wait[order.job.lane].observe(waited_s)
            if self._telemetry.spans is not None:
                self._telemetry.spans.waited(order.job, submitted_at, follower.started_at)

    def ended(self, orders: Sequence[Order], usages: Sequence[Usage | None]) -> None:
        for order, usage in zip(orders, usages, strict=True):
            self._intake.ended(order, usage)
            self._count_tokens(usage)


def take_back(follower: Follower) -> None:
    follower.det = False
    follower.close()

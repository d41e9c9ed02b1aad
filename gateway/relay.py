"""A job's way out and its answer's way back: submit it, follow it, cancel it if its client leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from buffer.follower import Follower
from buffer.job import Chat, End, Usage
from buffer.settings import Settings
from buffer.telemetry import Api, Outcome, Telemetry
from gateway.answering import Answering, Hears, Outlives, Outliving, outlived
from gateway.catalog import Catalog
from gateway.client import Client, WhileThere, while_there
from gateway.delivery import Delivery, Source, Timing
from gateway.ending import outcome_of
from gateway.intake import Intake, Order
from gateway.merged import Merged
from gateway.refusal import ClientLeft
from gateway.sending import Sending, take_back
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
        self._timing = timing
        self._detached_timing = replace(timing, first_byte_s=min(timing.first_byte_s, DETACHED_FIRST_BYTE_S))
        self.outliving = Outliving()
        """Has to run beside."""
        self._sending = Sending(settings, intake, telemetry, self.outliving.go_on)
        self._titles = Titles(timing.title_least_s, timing.title_most_s)

    async def run(
        self,
        order: Order,
        client: Client,
        *,
        more: Sequence[Order] = (),
        outlives: Outlives | None = None,
        hears: Hears | None = None,
    ) -> tuple[Outcome | None, bool]:
        """Sends the answer to ``order``. Gives how it ended, and whether the connection has to be broken off now.

        ``more``: what else the same request asks; the answers are sent as one. ``outlives``: None: no job is left
        behind, however it ends, wherever it is cancelled. Else the outcome may be None: the client has left, the jobs
        have not ended, and will be counted when they do. ``hears``: what becomes of them. Raises ``Refusal`` before
        anything was sent.
        """
        waits = order.title and outlives is None
        if waits and not await while_there(client.receive, self._titles.wait(order.job.user)):
            return "cancelled", False
        if order.job.lane == "background":
            return await self._follow([order, *more], client, outlives, hears)
        with self._titles.chat(order.job.user):
            return await self._follow([order, *more], client, outlives, hears)

    async def join(self, answer: Answering, client: Client) -> tuple[Outcome, bool] | None:
        """Sends the answer of jobs that another request made. None: the client left, and nothing was done about them.
        Else as ``run``.
        """
        end, breaks, _ = await self._deliver(answer, client)
        return None if end is None else (outcome_of(end), breaks)

    async def start(self, order: Order, hears: Hears) -> None:
        """Sends a job that no client of its own waits for, and looks after it to its end. Raises ``Refusal``."""
        self._intake.check([order])
        submitted_at = time.perf_counter()
        followers = await self._sending.submit_all([order])
        sources = [hears.hear(order, followers[0])]
        if not self.outliving.go_on(partial(self._look_after, [order], followers, sources, submitted_at)):
            take_back(followers[0])
            self._sending.close([order], followers, submitted_at)

    async def _follow(
        self, orders: Sequence[Order], client: Client, outlives: Outlives | None, hears: Hears | None
    ) -> tuple[Outcome | None, bool]:
        self._intake.check(orders)
        submitted_at = time.perf_counter()
        followers = await self._sending.submit_all(orders)
        sources: Sequence[Source] = followers
        if hears is not None:
            sources = [hears.hear(order, follower) for order, follower in zip(orders, followers, strict=True)]
        job = orders[0].job
        answer = Answering(
            job.id,
            job.lane,
            orders[0].chat,
            sources,
            submitted_at,
            client.created,
            det=outlives is not None and outlives.det,
            on_first=lambda: self._sending.started(orders, followers),
        )
        left_behind = False
        self._sending.expires(orders, followers)
        try:
            end, breaks, usages = await self._deliver(answer, client)
            if end is None and outlives is not None and await outlives.stays():
                work = partial(
                    self._outlive, orders, followers, sources, submitted_at, outlives=outlives, api=client.form.api
                )
                left_behind = self.outliving.go_on(work)
            elif end is None:
                for follower in followers:
                    take_back(follower)
        finally:
            self._sending.waited(orders)
            if not left_behind:
                self._sending.close(orders, followers, submitted_at)
        if end is None:
            return None if left_behind else "cancelled", False
        self._sending.ended(orders, usages)
        if outlives is not None:
            await outlives.ended(end)
        return outcome_of(end), breaks

    async def _outlive(
        self,
        orders: Sequence[Order],
        followers: Sequence[Follower],
        sources: Sequence[Source],
        submitted_at: float,
        *,
        outlives: Outlives,
        api: Api,
    ) -> None:
        """Looks after jobs whose client has left, to their end."""
        end = await self._look_after(orders, followers, sources, submitted_at)
        self._telemetry.request_ended(api, orders[0].job.lane, outcome_of(end))
        await outlives.ended(end)

    async def _look_after(
        self, orders: Sequence[Order], followers: Sequence[Follower], sources: Sequence[Source], submitted_at: float
    ) -> End:
        try:
            end, usages = await outlived(followers, sources, lambda: self._sending.started(orders, followers))
        finally:
            self._sending.close(orders, followers, submitted_at)
        self._sending.ended(orders, usages)
        return end

    async def _deliver(self, answer: Answering, client: Client) -> tuple[End | None, bool, Sequence[Usage | None]]:
        """The end (None: the client left before it), whether the connection has to be broken off, and what each job
        used.
        """
        chat, sources, form = answer.chat, answer.sources, client.form
        merged = Merged(sources, chat.n) if len(sources) > 1 else None
        if merged is not None:
            chat = msgspec.structs.replace(chat, n=chat.n * len(sources))
        headers = [(b"x-doublebuffer-id", answer.id.encode()), (b"x-doublebuffer-lane", answer.lane.encode())]
        if client.cache:
            headers.append((b"x-doublebuffer-cache", client.cache))
        delivery = Delivery(
            source=merged or sources[0],
            form=form,
            send=client.send,
            headers=headers,
            lane=answer.lane,
            arrived_at=client.arrived_at,
            telemetry=self._telemetry,
            submitted_at=answer.submitted_at,
            on_first=answer.on_first,
            about=partial(self._catalog.about, name=chat.model),
            line=client.call.line,
        )
        end: End | None = None
        breaks = False
        try:
            async with WhileThere(client.call, client.receive):
                if merged is None:
                    end, breaks = await self._write(delivery, answer, chat, client)
                else:
                    async with asyncio.TaskGroup() as group:
                        merged.open(group)
                        end, breaks = await self._write(delivery, answer, chat, client)
        except* ClientLeft:
            pass
        return end, breaks, [delivery.usage] if merged is None else merged.usages

    async def _write(self, delivery: Delivery, answer: Answering, chat: Chat, client: Client) -> tuple[End, bool]:
        form = client.form
        # The figures of Ollama's answers count from here.
        created = time.time() if form.api == "ollama" else answer.created
        if not chat.stream:
            return await delivery.whole(form.whole(chat, answer.id, created)), False
        writer = form.stream(chat, answer.id, created, client.is_open_webui)
        return await delivery.stream(writer, self._detached_timing if answer.det else self._timing)

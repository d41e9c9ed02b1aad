"""Jobs are put into a store once more by several gateways, in a burst, and through an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from buffer.access import Command, StoreUnavailable
from buffer.inbox import Inbox
from buffer.job import End
from buffer.lanes import Lanes
from tests.buffer.jobs import is_quiet, pull, record, words
from tests.buffer.losing import CHAT, DONE, Alive, Saved, begun, empty, has, there
from tests.buffer.running import answer, beside, submitted, until


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    """Whoever is at a job that it restores has half a second to come for it."""
    inbox = Inbox(lanes, "gate", watch_s=0.1, lease_s=0.5)
    await inbox.create()
    return inbox


async def test_two_gateways_restore_their_own(lanes: Lanes, inbox: Inbox) -> None:
    other = Inbox(lanes, "other", watch_s=0.1)
    await other.create()
    alive = Alive(lanes)
    async with beside(inbox.run, other.run, alive.run, alive.writer.run):
        mine = await begun(lanes, inbox, alive)
        theirs = await begun(lanes, other, alive, id="b")
        waiting = await submitted(other, "c", chat=CHAT)
        await empty(lanes)
        for follower, id in ((mine, "a"), (theirs, "b")):
            alive.says(id, words(f"of {id}"))
            await alive.writer.finish(id, DONE)
            assert await answer(follower) == (f"of {id}", DONE)
        await alive.takes()
        await alive.writer.finish("c", DONE)
        assert await answer(waiting) == ("", DONE)
        assert (await record(lanes, "b"))["inbox"] == other.name
    assert await is_quiet(lanes)


@pytest.mark.parametrize("back", [False, True])
async def test_a_burst_in_the_midst_of_which_the_store_is_lost(lanes: Lanes, inbox: Inbox, back: bool) -> None:
    alive = Alive(lanes)
    async with beside(inbox.run, alive.run, alive.writer.run):
        followers = [await submitted(inbox, f"j{i}", chat=CHAT) for i in range(40)]
        took = await alive.takes(15)
        for granted in took:
            alive.says(granted.id, words("1 "))
        await asyncio.gather(*(followers[int(granted.id[1:])].wait() for granted in took))
        saved = await Saved.now(lanes)
        followers += [await submitted(inbox, f"j{i}", chat=CHAT) for i in range(40, 80)]
        took += await alive.takes(40)
        for granted in took:
            alive.says(granted.id, words("2 "))
        await (saved.back(lanes) if back else empty(lanes))
        for granted in took:
            alive.says(granted.id, words("3 "))

        async def anew() -> None:
            """Whoever waits, those among them whose start their gateway had not heard of."""
            while not all(follower.ended for follower in followers):
                for granted in (await pull(lanes, 50)).jobs:
                    alive.writer.attach(granted)
                    alive.held[granted.id] = granted.fence
                    alive.says(granted.id, words("1 ", "2 ", "3 "))
                    group.create_task(alive.writer.finish(granted.id, DONE))
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            for granted in took:
                group.create_task(alive.writer.finish(granted.id, DONE))
            group.create_task(anew())
            answers = [await answer(follower) for follower in followers]
        for i, (text, end) in enumerate(answers):
            assert end == DONE
            assert text == "1 2 3 " or (i >= 15 and text == "2 3 "), f"j{i}"
    assert await is_quiet(lanes)


class Flaky:
    """In the place of ``exchange``: some calls are lost on the way there, some on the way back."""

    def __init__(self, lanes: Lanes, losses: str) -> None:
        self._exchange = lanes._exchange
        self._losses = list(losses)

    async def __call__(self, commands: Sequence[Command], **more: Any) -> list[Any]:
        loss = self._losses.pop(0) if self._losses and any("EVALSHA" in command for command in commands) else ""
        if loss == "<":
            raise StoreUnavailable("lost on the way there")
        results = await self._exchange(commands, **more)
        if loss == ">":
            raise StoreUnavailable("lost on the way back")
        return results


@pytest.mark.parametrize("losses", ["<", ">", "<>", "><", ">>><"])
async def test_a_job_is_restored_through_an_outage(
    lanes: Lanes, inbox: Inbox, losses: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = Alive(lanes)
    async with beside(alive.run, alive.writer.run):
        async with beside(inbox.run):
            follower = await begun(lanes, inbox, alive)
        await lanes.store.redis.delete(lanes.keys.job("a"))
        inbox_lanes = Lanes(lanes.store)
        monkeypatch.setattr(inbox_lanes, "_exchange", Flaky(inbox_lanes, losses), raising=True)
        inbox._errands._handing._lanes = inbox_lanes
        async with beside(inbox.run):
            alive.says("a", words("two"))
            await until(lambda: has(alive.statuses, "adopt"))
            await alive.writer.finish("a", DONE)
            assert await answer(follower) == ("two", DONE)


async def test_a_client_that_leaves_meanwhile_takes_its_job_along(lanes: Lanes, inbox: Inbox) -> None:
    alive = Alive(lanes)
    async with beside(alive.run, alive.writer.run):
        async with beside(inbox.run):
            follower = await begun(lanes, inbox, alive)
            waiting = await submitted(inbox, "b", chat=CHAT)
            await empty(lanes)
            await until(lambda: there(lanes, ["a", "b"]))
            waiting.close()
            follower.close()
            await until(lambda: has(alive.statuses, "cancel"))
            await alive.writer.finish("a", End("cancelled"))
        assert await is_quiet(lanes)

"""Clients that leave, that do not read, that come back."""

from __future__ import annotations

import asyncio

import pytest

from buffer import incoming
from buffer.control import Control
from buffer.fold import fold
from buffer.inbox import Inbox
from buffer.job import End
from buffer.lanes import Lanes
from buffer.records import Held
from buffer.replies import ReplyWriter
from tests.buffer.jobs import LEASE_S, is_quiet, job, pull, record, words
from tests.buffer.running import answer, beside, submitted, until


async def _cancelled(lanes: Lanes, id: str) -> bool:
    return (await record(lanes, id)).get("cancel") == "cancelled"


async def _is(lanes: Lanes, id: str, state: str) -> bool:
    return (await lanes.place(id)).state == state


async def test_a_client_that_leaves_cancels_its_job(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        await lanes.renew("w", [], LEASE_S)
        waiting = await submitted(inbox, "a")
        waiting.close()
        assert await until(lambda: _is(lanes, "a", "done"))
        follower = await submitted(inbox, "b")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("b", words("some"))
        await follower.next()
        last, controls = "0-0", list[Control]()
        follower.close()
        async with asyncio.timeout(5):
            while not controls:
                last, controls = await lanes.controls("w", last)
        assert [(control.kind, control.id, control.fence) for control in controls] == [("cancel", "b", granted.fence)]
        assert (await lanes.renew("w", [Held("b", granted.fence, "b")], LEASE_S))[0].status == "cancel"
        assert await writer.finish("b", End("cancelled")) == "ok"
    assert await is_quiet(lanes)


async def test_a_job_that_nobody_follows_is_cancelled(lanes: Lanes, inbox: Inbox) -> None:
    async with beside(inbox.run):
        await lanes.submit(job("a", inbox=inbox.name))
        await pull(lanes)
        assert await until(lambda: _cancelled(lanes, "a"))


async def test_a_detached_job_outlives_its_client(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a", det=True)
        follower.close()
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", words("all of it"))
        assert await writer.finish("a", End("done")) == "ok"
    answer = fold(await lanes.reply("a"))
    assert answer.whole().text == "all of it"
    assert answer.end == End("done")
    assert "cancel" not in await record(lanes, "a")


async def test_of_a_detached_job_nothing_is_sent_that_the_reply_key_lacks(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a", det=True)
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        for text in ("a", "b", "c"):
            writer.write("a", words(text))
            got = await follower.next()
            assert got == words(text)
            assert fold(await lanes.reply("a")).whole().text.endswith(text)
        await writer.finish("a", End("done"))


async def test_a_slow_client_pauses_its_worker(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        await lanes.renew("w", [], LEASE_S)
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        for _ in range(12):
            writer.write("a", words("x" * 100_000))
        last, heard = "0-0", list[Control]()
        while not heard:
            last, heard = await lanes.controls("w", last, 5)
        assert [control.kind for control in heard] == ["pause"]
        writer.pause("a")
        assert writer.blocked("a")
        await follower.next()
        heard = []
        while not heard:
            last, heard = await lanes.controls("w", last, 5)
        assert [control.kind for control in heard] == ["go"]
        writer.go("a")
        async with asyncio.timeout(5):
            await writer.ready("a")


async def test_an_unread_inbox_blocks_its_jobs_until_it_is_read(
    lanes: Lanes, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "TRIM_AT", 1)
    writer = ReplyWriter(lanes, most_in_inbox=5)
    async with beside(writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        written = 0

        async def full() -> bool:
            nonlocal written
            writer.write("a", words(f"{written} "))
            written += 1
            await asyncio.sleep(0)
            return writer.blocked("a")

        assert await until(full)
        length = await lanes.store.redis.xlen(lanes.keys.inbox(inbox.name))
        writer.write("a", words("kept"))
        await until(lambda: _appended(lanes, "a", written + 1))
        assert await lanes.store.redis.xlen(lanes.keys.inbox(inbox.name)) == length
        async with beside(inbox.run):
            async with asyncio.timeout(5):
                await writer.ready("a")
            await writer.finish("a", End("done"))
            assert await answer(follower) == ("".join(f"{i} " for i in range(written)) + "kept", End("done"))


async def _appended(lanes: Lanes, id: str, n: int) -> bool:
    return int((await record(lanes, id))["n"]) == n

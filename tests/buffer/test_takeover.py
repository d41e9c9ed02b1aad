"""A worker dies, a job is lost, an inbox is lost: what the client gets."""

from __future__ import annotations

from typing import Any

import pytest

from buffer.fold import fold
from buffer.follower import Follower
from buffer.frames import Part, pack
from buffer.heard import UNSEEN_TOKENS, Said, decode_said, fingerprint
from buffer.inbox import Inbox
from buffer.job import Chat, End, Finish, Message, Reasoning, ToolDelta
from buffer.lanes import Lanes
from buffer.records import Granted
from buffer.replies import ReplyWriter
from tests.buffer.jobs import LEASE_S, is_quiet, job, pull, record, words
from tests.buffer.running import answer, beside, submitted, until

CHAT = Chat("m", [Message("user", "hello")], stream=True)


async def test_what_never_comes_fails_the_answer_that_has_begun(lanes: Lanes) -> None:
    inbox = Inbox(lanes, "gate", watch_s=0.2, give_up_s=0.3)
    await inbox.create()
    async with beside(inbox.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        for n, text in ((1, "1"), (3, "3")):
            blob = pack([Part("a", granted.fence, n, "ev", words(text))])
            await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), {"p": blob})
            lanes.store.ring("inbox")
        text, end = await answer(follower)
        assert text == "1"
        assert end.kind == "failed"
        assert end.failure is not None
        assert end.failure.code == "lost"
        assert await until(lambda: _cancelled(lanes, "a"))


async def _cancelled(lanes: Lanes, id: str) -> bool:
    return (await record(lanes, id)).get("cancel") == "cancelled"


async def test_what_never_comes_begins_anew_if_the_client_saw_nothing(lanes: Lanes) -> None:
    inbox = Inbox(lanes, "gate", watch_s=0.2, give_up_s=0.3)
    await inbox.create()
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        blob = pack([Part("a", granted.fence, 3, "ev", words("3"))])
        await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), {"p": blob})
        lanes.store.ring("inbox")

        async def again() -> Any:
            return (await pull(lanes)).jobs

        (granted,) = await until(again)
        writer.attach(granted)
        writer.write("a", words("whole"))
        await writer.finish("a", End("done"))
        assert await answer(follower) == ("whole", End("done"))


async def test_a_dead_workers_job_goes_on_unseen(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        await pull(lanes, worker="dead")
        await _expire(lanes, "a")

        async def again() -> Any:
            return (await pull(lanes)).jobs

        (granted,) = await until(again)
        assert granted.taken == 1
        writer.attach(granted)
        writer.write("a", words("text"))
        await writer.finish("a", End("done"))
        assert await answer(follower) == ("text", End("done"))
    assert await is_quiet(lanes)


async def test_an_answer_that_had_begun_goes_on_where_it_stopped(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a", chat=CHAT)
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", [Reasoning("hm"), *words("half an ")])
        assert await follower.next() == [Reasoning("hm"), *words("half an ")]
        await _expire(lanes, "a")
        (again,) = await until(lambda: _pulled(lanes))
        said = Said("half an ", "hm")
        assert (decode_said(again.prefix), again.base) == (said, fingerprint(said))
        assert again.spent == 2 + UNSEEN_TOKENS
        assert await writer.finish("a", End("done")) == "lost"
        writer.attach(again)
        writer.write("a", words("answer"))
        await writer.finish("a", End("done"))
        assert await answer(follower) == ("answer", End("done"))
    assert await is_quiet(lanes)


async def _pulled(lanes: Lanes) -> list[Granted]:
    return (await pull(lanes)).jobs


async def test_an_answer_in_one_piece_goes_on_too(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a", chat=CHAT, whole=True)
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", words("half an "))
        await until(lambda: _heard(follower, "half an "))
        await _expire(lanes, "a")
        (again,) = await until(lambda: _pulled(lanes))
        assert decode_said(again.prefix) == Said("half an ")
        writer.attach(again)
        writer.write("a", words("answer"))
        await writer.finish("a", End("done"))
        assert await answer(follower) == ("half an answer", End("done"))


async def _heard(follower: Follower, text: str) -> bool:
    return follower.heard.said().text == text


@pytest.mark.parametrize("how", ["off", "tools", "no chat"])
async def test_an_answer_that_nobody_can_go_on_with_ends(lanes: Lanes, how: str) -> None:
    inbox = Inbox(lanes, "gate", watch_s=0.2, resume=how != "off")
    await inbox.create()
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a", chat=None if how == "no chat" else CHAT)
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        events = [ToolDelta(0, "call", "name")] if how == "tools" else words("half an ")
        writer.write("a", list(events))
        assert await follower.next() == events
        await _expire(lanes, "a")
        got = await follower.next()
        assert isinstance(got, End)
        assert got.failure is not None
        assert (got.failure.status, got.failure.code) == (502, "interrupted")
        assert await until(lambda: _is(lanes, "a", "done"))
        # It may have heard of that already.
        assert await writer.finish("a", End("done")) in ("lost", "gone")
    assert await is_quiet(lanes)


async def test_an_answer_whose_figures_alone_are_missing_is_done(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a", chat=CHAT, det=True)
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", [*words("all"), Finish("stop")])
        assert await follower.next() == [*words("all"), Finish("stop")]
        await _expire(lanes, "a")
        assert await follower.next() == End("done")
        assert await until(lambda: _is(lanes, "a", "done"))
        folded = fold(await lanes.reply("a"))
        assert (folded.whole(), folded.end) == (Said("all"), End("done"))
    assert await is_quiet(lanes)


async def _is(lanes: Lanes, id: str, state: str) -> bool:
    return (await lanes.place(id)).state == state


async def _expire(lanes: Lanes, id: str) -> None:
    """The lease of a job runs out, and a reaper comes by."""
    await lanes.reap(LEASE_S)
    await lanes.store.redis.zadd(lanes.keys.lease, {id: 1})
    reaped = await lanes.reap(LEASE_S)
    assert reaped.taken_over == 1


async def test_a_lost_job_is_told_to_its_worker(lanes: Lanes, inbox: Inbox) -> None:
    lost: list[str] = []
    writer = ReplyWriter(lanes, on_lost=lost.append)
    async with beside(inbox.run, writer.run):
        await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        await lanes.requeue("a", granted.fence, snapshot="", base="", spent=0, inbox=inbox.name)
        writer.write("a", words("too late"))

        async def told() -> list[str]:
            return lost

        assert await until(told) == ["a"]
        assert await writer.finish("a", End("done")) == "gone"


async def test_a_worker_drops_the_job_of_a_dead_gateway(lanes: Lanes, inbox: Inbox) -> None:
    lost: list[str] = []
    writer = ReplyWriter(lanes, lease_s=0.2, on_lost=lost.append)
    async with beside(writer.run):
        await lanes.submit(job("a", inbox=inbox.name))
        (granted,) = (await pull(lanes)).jobs
        await lanes.store.redis.delete(lanes.keys.inbox(inbox.name))
        writer.attach(granted)

        async def dropped() -> list[str]:
            writer.write("a", words("word "))
            return lost

        assert await until(dropped) == ["a"]
    assert (await lanes.place("a")).state == "gone"
    assert await is_quiet(lanes)

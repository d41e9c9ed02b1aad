"""Worker's and gateway's side of the answers together, over every store."""

from __future__ import annotations

import asyncio

import pytest

from buffer.fold import fold
from buffer.frames import Part, pack
from buffer.inbox import Inbox
from buffer.job import Content, End, Failure
from buffer.lanes import Lanes
from buffer.records import GivenBack, Granted
from buffer.replies import ReplyWriter
from tests.buffer.jobs import chunk, is_quiet, job, kinds, pull, record, words
from tests.buffer.running import answer, beside, submitted, until
from tests.rig.doorbell import Doorbell


async def test_many_answers_arrive_whole_and_in_order(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    asked = [f"j{i}" for i in range(40)]

    async def work(granted: Granted) -> None:
        writer.attach(granted)
        for i in range(30):
            writer.write(granted.id, words(f"{granted.id}.{i} "))
            await asyncio.sleep(0)
        assert await writer.finish(granted.id, End("done"), real_tokens=30) == "ok"

    async def worker() -> None:
        async with asyncio.TaskGroup() as group:
            bell = await Doorbell.now(lanes)
            while True:
                pulled = await pull(lanes, 8)
                for granted in pulled.jobs:
                    group.create_task(work(granted))
                if not pulled.jobs:
                    await bell.rings()

    async with beside(inbox.run, writer.run, worker):
        followers = [await submitted(inbox, id) for id in asked]
        answers = await asyncio.gather(*(answer(follower) for follower in followers))
        for follower in followers:
            follower.close()
    for id, (text, end) in zip(asked, answers, strict=True):
        assert text == "".join(f"{id}.{i} " for i in range(30))
        assert end == End("done")
        assert fold(await lanes.reply(id)).whole().text == text
    assert followers[0].started == "b"
    assert await is_quiet(lanes)


async def test_an_ended_answer_gives_its_end_once(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        failure = Failure("The engine is broken.", status=500)
        assert await writer.finish("a", End("failed", failure)) == "ok"
        assert await answer(follower) == ("", End("failed", failure))
        with pytest.raises(RuntimeError, match="ended"):
            await follower.next()


async def test_a_refused_job_has_no_follower(lanes: Lanes, inbox: Inbox) -> None:
    await submitted(inbox, "a")
    status, follower = await inbox.submit(job("b"), limit=1)
    assert status.status == "full"
    assert status.waiting == 1
    assert follower is None


async def test_sent_again_in_other_pieces_nothing_comes_twice(lanes: Lanes, inbox: Inbox) -> None:
    async with beside(inbox.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs

        async def send(n: int, *texts: str) -> None:
            blob = pack([Part("a", granted.fence, n, "ev", words(*texts))])
            await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), {"p": blob})
            lanes.store.ring("inbox")

        await send(1, "1", "2")
        await send(1, "1", "2")
        await send(2, "2", "3", "4")
        await send(3, "3")
        await send(5, "5")
        await lanes.append([chunk(granted, 1, "1", "2", "3", "4", "5")])
        assert await lanes.settle("a", granted.fence, 6, End("done")) == "ok"
        lanes.store.ring("inbox")
        assert await answer(follower) == ("12345", End("done"))


async def test_a_lost_frame_is_made_good_from_the_reply_key(lanes: Lanes, inbox: Inbox) -> None:
    async with beside(inbox.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        await lanes.append([chunk(granted, 1, "1", "2", "3")])
        blob = pack([Part("a", granted.fence, 4, "ev", words("4"))])
        await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), {"p": blob})
        lanes.store.ring("inbox")
        text = ""
        while text != "123":
            got = await follower.next()
            assert not isinstance(got, End)
            text += "".join(event.text for event in got if isinstance(event, Content))
        await lanes.append([chunk(granted, 4, "4", "5")])
        assert await lanes.settle("a", granted.fence, 6, End("done")) == "ok"
        lanes.store.ring("inbox")
        assert await answer(follower) == ("45", End("done"))


async def test_a_retry_before_the_first_word_is_not_seen(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        assert await writer.release("a", GivenBack("error")) == "waiting"
        (granted,) = (await pull(lanes, backend="other")).jobs
        assert granted.fails == 1
        writer.attach(granted)
        writer.write("a", words("now"))
        await writer.finish("a", End("done"))
        assert await answer(follower) == ("now", End("done"))
        assert follower.started == "other"


async def test_attempts_used_up_end_with_the_last_failure(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    failure = End("failed", Failure("It broke.", status=502))
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        for expected in ("waiting", "ended"):
            (granted,) = (await pull(lanes)).jobs
            writer.attach(granted)
            assert await writer.release("a", GivenBack("error", max_attempts=2, failure=failure)) == expected
        assert await answer(follower) == ("", failure)
    assert await is_quiet(lanes)


async def _appended(lanes: Lanes, id: str, n: int) -> bool:
    return int((await record(lanes, id))["n"]) == n


async def test_an_append_refused_by_number_goes_on_from_there(lanes: Lanes, inbox: Inbox) -> None:
    """After a rollback of the store the reply key may have fewer events than were acknowledged."""
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", words("1", "2"))
        await until(lambda: _appended(lanes, "a", 2))
        writer.write("a", words("3", "4"))
        await until(lambda: _appended(lanes, "a", 4))
        entries = await lanes.reply("a")
        await lanes.store.redis.xdel(lanes.keys.reply("a"), entries[-1][0], entries[-2][0])
        await _rewind(lanes, "a", granted)
        writer.write("a", words("5"))
        assert await writer.finish("a", End("done")) == "ok"
        assert await answer(follower) == ("12345", End("done"))
    assert fold(await lanes.reply("a")).whole().text == "12345"


async def _rewind(lanes: Lanes, id: str, granted: Granted) -> None:
    redis, keys = lanes.store.redis, lanes.keys
    entries: list[tuple[bytes, dict[bytes, bytes]]] = await redis.xrange(keys.reply(id))
    await redis.delete(keys.reply(id))
    for entry_id, fields in entries[:2]:
        await redis.xadd(keys.reply(id), fields, id=entry_id)
    await redis.expire(keys.reply(id), 100)
    await redis.hset(keys.job(id), "n", 0)


async def test_a_lost_acknowledgement_of_the_end_does_no_harm(lanes: Lanes, inbox: Inbox) -> None:
    async with beside(inbox.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        await lanes.append([chunk(granted, 1, "1")])
        assert await lanes.append([chunk(granted, 1, "1")]) == [1]
        assert await lanes.settle("a", granted.fence, 2, End("done")) == "ok"
        assert await lanes.settle("a", granted.fence, 2, End("done")) == "done"
        assert await answer(follower) == ("1", End("done"))
    assert [kind for _, kind in await kinds(lanes, "a")].count("done") == 1

"""Worker's and gateway's side of the answers together, over every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from buffer.fold import fold
from buffer.follower import Follower
from buffer.frames import Part, pack
from buffer.inbox import Inbox
from buffer.job import Content, End, Failure
from buffer.lanes import Lanes
from buffer.records import Control, Granted, Held
from buffer.replies import ReplyWriter
from tests.buffer.jobs import LEASE_S, chunk, is_quiet, job, kinds, pull, record, words


@asynccontextmanager
async def beside(*loops: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Runs these beside the block, and stops them after it."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run(loop)) for loop in loops]
        yield
        for task in tasks:
            task.cancel()


async def _run(loop: Callable[[], Awaitable[None]]) -> None:
    await loop()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Asks until it is so; what is waited for happens in another task."""
    async with asyncio.timeout(10):
        while not (value := await condition()):
            await asyncio.sleep(0.005)
        return value


async def answer(follower: Follower) -> tuple[str, End]:
    """A whole answer: its text and its end."""
    text = ""
    async with asyncio.timeout(20):
        while not isinstance(got := await follower.next(), End):
            text += "".join(event.text for event in got if isinstance(event, Content))
    return text, got


async def submitted(inbox: Inbox, id: str, **fields: Any) -> Follower:
    _, follower = await inbox.submit(job(id, **fields))
    assert follower is not None
    return follower


@pytest.fixture
async def inbox(lanes: Lanes) -> Inbox:
    inbox = Inbox(lanes, "gate", watch_s=0.2)
    await inbox.create()
    return inbox


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
            while True:
                pulled = await pull(lanes, 8)
                for granted in pulled.jobs:
                    group.create_task(work(granted))
                if not pulled.jobs:
                    await lanes.idle(pulled.seen)

    async with beside(inbox.run, writer.run, worker):
        followers = [await submitted(inbox, id) for id in asked]
        answers = await asyncio.gather(*(answer(follower) for follower in followers))
        for follower in followers:
            follower.close()
    for id, (text, end) in zip(asked, answers, strict=True):
        assert text == "".join(f"{id}.{i} " for i in range(30))
        assert end == End("done")
        assert fold(await lanes.reply(id)).whole_text() == text
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


async def test_a_dead_worker_whose_answer_had_begun_ends_it(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        writer.write("a", words("half an "))
        assert await follower.next() == words("half an ")
        await _expire(lanes, "a")
        got = await follower.next()
        assert isinstance(got, End)
        assert got.failure is not None
        assert (got.failure.status, got.failure.code) == (502, "interrupted")
        assert await until(lambda: _is(lanes, "a", "done"))
        assert await writer.finish("a", End("done")) == "lost"
    assert await is_quiet(lanes)


async def _is(lanes: Lanes, id: str, state: str) -> bool:
    return (await lanes.place(id)).state == state


async def _expire(lanes: Lanes, id: str) -> None:
    """The lease of a job runs out, and a reaper comes by."""
    await lanes.reap(LEASE_S)
    await lanes.store.redis.zadd(lanes.keys.lease, {id: 1})
    reaped = await lanes.reap(LEASE_S)
    assert reaped.taken_over == 1


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
    assert answer.whole_text() == "all of it"
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
            assert fold(await lanes.reply("a")).whole_text().endswith(text)
        await writer.finish("a", End("done"))


async def test_a_retry_before_the_first_word_is_not_seen(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        writer.attach(granted)
        assert await writer.release("a", why="error") == "waiting"
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
            assert await writer.release("a", why="error", max_attempts=2, failure=failure) == expected
        assert await answer(follower) == ("", failure)
    assert await is_quiet(lanes)


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


async def test_an_unread_inbox_blocks_its_jobs_until_it_is_read(lanes: Lanes, inbox: Inbox) -> None:
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


async def test_a_lost_inbox_gets_a_new_name_and_unseen_jobs_go_on(lanes: Lanes, inbox: Inbox) -> None:
    writer = ReplyWriter(lanes)
    async with beside(inbox.run, writer.run):
        seen = await submitted(inbox, "seen")
        (first,) = (await pull(lanes)).jobs
        writer.attach(first)
        writer.write("seen", words("some"))
        await seen.next()
        unseen = await submitted(inbox, "unseen")
        old = inbox.name
        await lanes.store.redis.delete(lanes.keys.inbox(old))
        text, end = await answer(seen)
        assert (text, end.kind) == ("", "failed")
        assert end.failure is not None
        assert (end.failure.status, end.failure.code, end.failure.retry_after_s) == (503, "lost", 1)
        assert inbox.name != old

        async def readdressed() -> bool:
            return (await record(lanes, "unseen"))["inbox"] == inbox.name

        # A pull before that would find the job's inbox missing, and take its gateway for dead.
        assert await until(readdressed)
        (granted,) = (await pull(lanes)).jobs
        assert granted.inbox == inbox.name
        writer.attach(granted)
        writer.write("unseen", words("whole"))
        await writer.finish("unseen", End("done"))
        assert await answer(unseen) == ("whole", End("done"))


async def test_a_lost_job_fails_its_client(lanes: Lanes, inbox: Inbox) -> None:
    async with beside(inbox.run):
        follower = await submitted(inbox, "a")
        await lanes.store.redis.delete(lanes.keys.job("a"))
        _, end = await answer(follower)
        assert end.failure is not None
        assert end.failure.code == "lost"
    await pull(lanes)
    await lanes.reap(LEASE_S)
    await lanes.reap(LEASE_S)
    assert await is_quiet(lanes)


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
    assert fold(await lanes.reply("a")).whole_text() == "12345"


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

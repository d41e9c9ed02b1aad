"""The worker's side of an answer that the store has lost: kept in memory, and told to its end once it is adopted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer import attempt as attempts
from buffer import outgoing
from buffer.access import Command
from buffer.fold import fold
from buffer.frames import Part, unpack
from buffer.heard import Said
from buffer.job import Content, End
from buffer.lanes import Lanes
from buffer.past import Past
from buffer.records import GivenBack, Granted
from buffer.replies import ReplyWriter
from tests.buffer.jobs import INBOX, is_quiet, job, kinds, record, running, words
from tests.buffer.running import beside, until
from tests.buffer.test_adoption import emptied, renew, restored

DONE = End("done")


class Told:
    """A writer, and what it told."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.lost: list[str] = []
        self.orphan = asyncio.Event()
        self.writer = ReplyWriter(lanes, lease_s=2.0, on_lost=self.lost.append, on_orphan=self.orphan.set)

    async def begun(self, *texts: str, **fields: Any) -> Granted:
        """A job of which so much has been said and appended."""
        granted = await running(self.lanes, **fields)
        self.writer.attach(granted)
        if texts:
            self.writer.write(granted.id, words(*texts))
            await until(lambda: self._appended(granted.id, len(texts)))
        return granted

    async def _appended(self, id: str, n: int) -> bool:
        return int((await record(self.lanes, id))["n"]) == n

    async def adopted(self, granted: Granted, have: int) -> int:
        """Put there again by its gateway, and found there by its worker. The new fence."""
        fence = await restored(self.lanes, granted, have)
        assert self.writer.renewed(granted.id, granted.fence, await renew(self.lanes, granted))
        return fence


@pytest.fixture
async def told(lanes: Lanes) -> Told:
    return Told(lanes)


async def sent(lanes: Lanes, fence: int) -> list[tuple[int, str]]:
    """Number and text of the events that came to the inbox under a fence."""
    parts: list[Part] = []
    for _, fields in await lanes.store.redis.xrange(lanes.keys.inbox(INBOX)):
        parts += unpack(fields)
    return [
        (part.n + i, event.text)
        for part in parts
        if part.fence == fence
        for i, event in enumerate(part.events)
        if isinstance(event, Content)
    ]


async def text(lanes: Lanes) -> str:
    return fold(await lanes.reply("a")).whole().text


async def test_what_was_said_meanwhile_is_told_once_it_is_adopted(lanes: Lanes, told: Told) -> None:
    writer = told.writer
    async with beside(writer.run):
        granted = await told.begun("one", " two", " three")
        await emptied(lanes)
        writer.write("a", words(" four"))
        await told.orphan.wait()
        before = await sent(lanes, granted.fence)
        writer.write("a", words(" five"))
        await asyncio.sleep(0.15)
        assert await sent(lanes, granted.fence) == before, "nothing more goes out under the old fence"
        assert told.lost == []
        fence = await told.adopted(granted, have=1)
        writer.write("a", words(" six"))
        assert await writer.finish("a", DONE) == "ok"
        assert await sent(lanes, fence) == [(1, " two"), (2, " three"), (3, " four"), (4, " five"), (5, " six")]
        assert await text(lanes) == "one two three four five six"
        assert (await kinds(lanes, "a"))[-1] == (f"{fence}-6", "done")
    assert await is_quiet(lanes)


@pytest.mark.parametrize("have", [0, 1, 2, 3])
async def test_wherever_its_gateway_stands_it_gets_the_rest(lanes: Lanes, told: Told, have: int) -> None:
    async with beside(told.writer.run):
        granted = await told.begun("a", "b", "c")
        await emptied(lanes)
        fence = await told.adopted(granted, have)
        assert await told.writer.finish("a", DONE) == "ok"
        assert await sent(lanes, fence) == [(i + 1, letter) for i, letter in enumerate("abc"[have:])]
        assert (await kinds(lanes, "a"))[-1] == (f"{fence}-{4 - have}", "done")


async def test_a_finished_answer_waits_until_it_is_adopted(lanes: Lanes, told: Told) -> None:
    writer = told.writer
    async with beside(writer.run):
        granted = await told.begun("one")
        await emptied(lanes)
        writer.write("a", words(" two"))
        ended = asyncio.create_task(writer.finish("a", DONE))
        await told.orphan.wait()
        assert not ended.done()
        fence = await told.adopted(granted, have=1)
        assert await ended == "ok"
        assert await sent(lanes, fence) == [(1, " two")]
        assert await text(lanes) == "one two"
    assert await is_quiet(lanes)


async def test_so_does_one_that_is_given_back(lanes: Lanes, told: Told) -> None:
    writer = told.writer
    async with beside(writer.run):
        granted = await told.begun("one", " two")
        await emptied(lanes)
        back = asyncio.create_task(writer.release("a", GivenBack("drain", Said("one two"), spent=2)))
        await told.orphan.wait()
        assert not back.done()
        fence = await told.adopted(granted, have=1)
        assert await back == "waiting"
        assert (await kinds(lanes, "a"))[-2:] == [(f"{fence}-1", "ev"), (f"{fence}-2", "again")]
    assert (await record(lanes, "a"))["spent"] == "2"


async def test_one_that_was_cancelled_waits_for_nobody(lanes: Lanes, told: Told) -> None:
    async with beside(told.writer.run):
        await told.begun("one")
        await emptied(lanes)
        async with asyncio.timeout(1):
            assert await told.writer.finish("a", End("cancelled")) == "lost"
            assert await told.writer.finish("a", End("cancelled")) == "gone"


async def test_an_orphan_that_is_cancelled_waits_for_nobody_either(lanes: Lanes, told: Told) -> None:
    async with beside(told.writer.run):
        granted = await told.begun("one")
        await emptied(lanes)
        assert told.writer.renewed("a", granted.fence, await renew(lanes, granted))
        async with asyncio.timeout(1):
            assert await told.writer.finish("a", End("cancelled")) == "gone"


async def test_dropped_its_end_is_lost(lanes: Lanes, told: Told) -> None:
    async with beside(told.writer.run):
        await told.begun("one")
        await emptied(lanes)
        ended = asyncio.create_task(told.writer.finish("a", DONE))
        await told.orphan.wait()
        told.writer.drop("a")
        assert await ended == "lost"


async def test_once_another_has_it_its_end_is_lost(lanes: Lanes, told: Told) -> None:
    writer = told.writer
    async with beside(writer.run):
        granted = await told.begun("one")
        await emptied(lanes)
        ended = asyncio.create_task(writer.finish("a", DONE))
        await told.orphan.wait()
        await lanes.restore([Past(job=job("a"), age_us=0, floor=granted.fence)], 15.0)
        assert writer.renewed("a", granted.fence, await renew(lanes, granted))
        assert await ended == "lost"


async def test_a_store_that_knows_it_after_all_gets_the_rest(lanes: Lanes, told: Told) -> None:
    """A replica that lagged behind, and then the right one."""
    writer, keys, redis = told.writer, lanes.keys, lanes.store.redis
    async with beside(writer.run):
        granted = await told.begun("one")
        await redis.rename(keys.job("a"), keys.job("away"))
        writer.write("a", words(" two"))
        await told.orphan.wait()
        writer.write("a", words(" three"))
        await redis.rename(keys.job("away"), keys.job("a"))
        assert writer.renewed("a", granted.fence, await renew(lanes, granted))
        assert await writer.finish("a", DONE) == "ok"
        assert await text(lanes) == "one two three"
    assert await is_quiet(lanes)


async def test_adopted_while_a_turn_is_under_way(lanes: Lanes, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """What that turn did under the old fence, and what came of it, counts no more."""
    writer, exchange = told.writer, lanes.store.exchange
    async with beside(writer.run):
        granted = await told.begun("one", " two")
        on_its_way, go_on = asyncio.Event(), asyncio.Event()

        async def slow(commands: list[Command], **more: Any) -> list[Any]:
            monkeypatch.setattr(lanes.store, "exchange", exchange)
            on_its_way.set()
            await go_on.wait()
            return await exchange(commands, **more)

        monkeypatch.setattr(lanes.store, "exchange", slow)
        writer.write("a", words(" three"))
        ended = asyncio.create_task(writer.finish("a", DONE))
        await on_its_way.wait()
        await emptied(lanes)
        fence = await told.adopted(granted, have=2)
        go_on.set()
        assert await ended == "ok"
        assert await sent(lanes, fence) == [(1, " three")]
        assert (await kinds(lanes, "a"))[-1] == (f"{fence}-2", "done")
        assert told.lost == []
        assert not told.orphan.is_set()


async def test_its_engine_is_read_on_until_memory_is_full(
    lanes: Lanes, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "MOST_UNSENT", 1000)
    monkeypatch.setattr(outgoing, "MOST_KEPT", 4000)
    writer = told.writer
    async with beside(writer.run):
        granted = await told.begun("one")
        await emptied(lanes)
        assert writer.renewed("a", granted.fence, await renew(lanes, granted))
        writer.write("a", words("x" * 2000))
        assert not writer.blocked("a")
        writer.write("a", words("y" * 2000))
        assert writer.blocked("a")
        read_on = asyncio.create_task(writer.ready("a"))
        await asyncio.sleep(0)
        assert not read_on.done()
        await told.adopted(granted, have=1)
        async with asyncio.timeout(2):
            await read_on
        assert await writer.finish("a", DONE) == "ok"
        assert len(await text(lanes)) == 3 + 4000


async def test_the_word_to_go_on_may_have_been_lost_with_the_store(lanes: Lanes, told: Told) -> None:
    async with beside(told.writer.run):
        granted = await told.begun("one")
        told.writer.pause("a")
        await emptied(lanes)
        await told.adopted(granted, have=1)
        assert not told.writer.blocked("a")


async def test_what_is_no_longer_kept_cannot_be_told(lanes: Lanes, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very long answer the beginning is forgotten; a gateway that is not far behind still gets the rest."""
    monkeypatch.setattr(attempts, "MOST_KEPT", 3000)
    async with beside(told.writer.run):
        for have, kept in ((1, False), (4, True)):
            granted = await told.begun()
            for count in range(1, 7):
                told.writer.write("a", words(str(count) * 900))
                await until(lambda count=count: told._appended("a", count))  # type: ignore[misc]
            await emptied(lanes)
            fence = await restored(lanes, granted, have)
            assert told.writer.renewed("a", granted.fence, await renew(lanes, granted)) is kept
            if kept:
                assert await told.writer.finish("a", DONE) == "ok"
                assert await sent(lanes, fence) == [(1, "5" * 900), (2, "6" * 900)]
            await emptied(lanes)

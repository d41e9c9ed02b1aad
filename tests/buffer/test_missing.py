"""Words and parts that never come: what a gateway does about it."""

from __future__ import annotations

import pytest

from buffer.frames import Part, pack
from buffer.heard import Said, decode_said
from buffer.inbox import Inbox
from buffer.job import Content
from buffer.lanes import Lanes
from tests.buffer.jobs import pull, words
from tests.buffer.losing import CHAT, DONE, Alive
from tests.buffer.running import answer, beside, submitted, until


async def test_a_go_that_got_lost_is_said_again(lanes: Lanes) -> None:
    inbox = Inbox(lanes, "gate", watch_s=0.1)
    await inbox.create()
    await lanes.renew("w", [], 15)
    async with beside(inbox.run):
        follower = await submitted(inbox, "a")
        (granted,) = (await pull(lanes)).jobs
        blob = pack([Part("a", granted.fence, 1, "ev", [Content("x" * 1_100_000)])])
        await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), {"p": blob})
        lanes.store.ring("inbox")
        await follower.wait()
        await until(lambda: _told(lanes, "pause"))
        await follower.next()
        await until(lambda: _told(lanes, "go"))
        await lanes.store.redis.xtrim(lanes.keys.ctl("w"), maxlen=0)
        assert await until(lambda: _told(lanes, "go"))


async def _told(lanes: Lanes, word: str) -> bool:
    return any(control.kind == word for control in (await lanes.controls("w", "0-0", 0.001))[1])


@pytest.mark.parametrize("ended", [False, True])
async def test_what_never_comes_is_gone_on_with_from_what_did(lanes: Lanes, ended: bool) -> None:
    """A part is missing for good; or its worker ended what its client does not have."""
    inbox = Inbox(lanes, "gate", watch_s=0.2, give_up_s=0.3)
    await inbox.create()
    alive = Alive(lanes)
    async with beside(inbox.run, alive.writer.run):
        follower = await submitted(inbox, "a", chat=CHAT)
        (granted,) = (await pull(lanes)).jobs
        for n, word in ((1, "one "), (3, "three")):
            blob = pack([Part("a", granted.fence, n, "ev", words(word))])
            await lanes.store.redis.xadd(lanes.keys.inbox(inbox.name), {"p": blob})
        lanes.store.ring("inbox")
        if ended:
            assert await lanes.settle("a", granted.fence, 1, DONE) == "ok"
        (again,) = await alive.takes()
        assert decode_said(again.prefix) == Said("one ")
        assert await lanes.settle("a", granted.fence, 1, DONE) == "lost"
        alive.says("a", words("two"))
        await alive.writer.finish("a", DONE)
        assert await answer(follower) == ("one two", DONE)


async def test_a_job_that_waits_too_long_after_it_was_put_back_ends(lanes: Lanes, inbox: Inbox) -> None:
    """Nobody pulls any more: its client is told all the same."""
    async with beside(inbox.run):
        follower = await submitted(inbox, "a", chat=CHAT, timeout_us=400_000)
        (granted,) = (await pull(lanes)).jobs
        await lanes.requeue("a", granted.fence, snapshot="", base="", spent=0, inbox=inbox.name)
        _, end = await answer(follower)
        assert end.kind == "expired"

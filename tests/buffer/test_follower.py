"""A follower takes parts in any order and pieces, and gives each word once."""

from __future__ import annotations

import asyncio

import pytest

from buffer.fold import fold
from buffer.follower import Follower
from buffer.frames import Part
from buffer.job import Content, End, Event, Failure, Logprobs, Reasoning, ToolDelta
from buffer.unread import MOST_UNREAD
from tests.buffer.parts import Noted, events, final, start, text
from tests.buffer.test_fold import end, ev, mark


async def test_events_come_once_whatever_the_pieces(follower: Follower, desk: Noted) -> None:
    for part in (
        start(5),
        events(5, 1, "ab"),
        events(5, 1, "abc"),
        events(5, 2, "b"),
        events(5, 4, "d"),
        events(4, 5, "x"),
    ):
        follower.take(part)
    follower.take(final(5, 5))
    assert await follower.next() == [Content(letter) for letter in "abcd"]
    assert await follower.next() == End("done")
    assert (follower.started, desk.wants) == ("b", [])


async def test_a_hole_waits_for_the_reply_key(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "a"))
    follower.take(events(5, 3, "c"))
    assert desk.wants == ["catch_up"]
    assert await text(follower) == "a"
    follower.take_folded(fold([mark("5-0", "start"), ev(5, 1, "a", "b", "c", "d")]))
    assert await text(follower) == "bcd"
    assert follower.behind_since is None
    follower.take(events(5, 4, "de"))
    assert await text(follower) == "e"


async def test_what_the_reply_key_lacks_stays_missing(follower: Follower) -> None:
    follower.take(start(5))
    follower.take(events(5, 3, "c"))
    since = follower.behind_since
    assert since is not None
    follower.take_folded(fold([mark("5-0", "start")]))
    assert follower.behind_since == since
    follower.take_folded(fold([mark("5-0", "start"), ev(5, 1, "a")]))
    assert follower.behind_since is not None
    assert await text(follower) == "a"


async def test_a_done_before_all_words_waits_for_them(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(final(5, 3))
    assert desk.wants == ["catch_up"]
    assert not follower.ended
    follower.take_folded(fold([mark("5-0", "start"), ev(5, 1, "a", "b"), end("5-3")]))
    assert await follower.next() == [Content("a"), Content("b")]
    assert await follower.next() == End("done")


async def test_a_failure_ends_at_once(follower: Follower) -> None:
    follower.take(start(5))
    follower.take(final(5, 9, "failed"))
    assert await follower.next() == End("failed")
    follower.take(events(5, 1, "late"))
    with pytest.raises(RuntimeError):
        await follower.next()


async def test_a_late_follower_reads_all_from_the_reply_key(follower: Follower) -> None:
    entries = [mark("0-1", "queued"), mark("5-0", "start"), ev(5, 1, "a", "b"), end("5-3")]
    follower.take_folded(fold(entries))
    follower.take_folded(fold(entries))
    assert await follower.next() == [Content("a"), Content("b")]
    assert await follower.next() == End("done")


async def test_waiting_can_be_given_up_and_taken_up(follower: Follower) -> None:
    follower.take(start(5))
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await follower.wait()
    follower.take(events(5, 1, "a"))
    async with asyncio.timeout(1):
        await follower.wait()
    assert await text(follower) == "a"


async def test_a_waiting_reader_is_woken(follower: Follower) -> None:
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(follower.next())
        await asyncio.sleep(0)
        follower.take(start(5))
        follower.take(events(5, 1, "a"))
        async with asyncio.timeout(1):
            got: list[Event] | End = await reading
    assert got == [Content("a")]


async def test_unread_bytes_pause_and_then_end_the_answer(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [Content("x" * 1_100_000)]))
    follower.take(events(5, 2, "y"))
    assert desk.wants == ["pause"]
    await follower.next()
    assert desk.wants == ["pause", "go"]
    follower.take(Part("a", 5, 3, "ev", [Content("x" * MOST_UNREAD)]))
    assert desk.wants == ["pause", "go", "cancel"]
    assert follower.ended


@pytest.mark.parametrize("event", [Reasoning("x" * 1000), ToolDelta(0, arguments="x" * 1000), Logprobs("x" * 1000)])
async def test_whatever_takes_room_counts(follower: Follower, desk: Noted, event: Event) -> None:
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [event] * 1100))
    assert desk.wants == ["pause"]


async def test_closing_is_told_once(follower: Follower, desk: Noted) -> None:
    follower.close()
    follower.close()
    assert desk.wants == ["forget"]


async def test_the_first_end_counts(follower: Follower) -> None:
    follower.fail(Failure("one"))
    follower.fail(Failure("two"))
    follower.take(final(5, 1))
    assert await follower.next() == End("failed", Failure("one"))

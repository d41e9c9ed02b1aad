"""What a follower hands on, and what it takes meanwhile and afterwards."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from buffer.embed import Vector
from buffer.failures import INTERRUPTED
from buffer.fold import fold
from buffer.follower import Follower
from buffer.frames import Part
from buffer.heard import Said, fingerprint
from buffer.job import Chat, Content, End, Event, Finish, Message, Origin, Reasoning, ToolDelta
from tests.buffer.jobs import job
from tests.buffer.parts import Noted, events, final, start, text
from tests.buffer.test_fold import base, ev, mark, told

CHAT = Chat("m", [Message("user", "hello")], stream=True)
DONE = End("done")


def following(desk: Noted, **more: Any) -> Follower:
    values: dict[str, Any] = {"chat": CHAT, "job": job("a")}
    return Follower(desk, "a", **{**values, **more})


async def begun(desk: Noted, said: str = "ab", **more: Any) -> Follower:
    """Its client has so much."""
    follower = following(desk, **more)
    follower.take(start(5))
    follower.take(events(5, 1, said))
    assert await text(follower) == said
    return follower


def lost(fence: int) -> Part:
    return Part("a", fence, 0, "lost")


async def test_what_was_heard_is_handed_on_and_fixed(desk: Noted) -> None:
    follower = await begun(desk)
    follower.take(events(5, 3, "c"))
    follower.take(lost(6))
    assert (desk.wants, follower.ended) == (["requeue"], False)
    assert follower.hand_on() == Said("abc")
    follower.take(events(5, 4, "x"))
    follower.take(events(6, 1, "x"))
    follower.take_folded(fold([mark("6-0", "snap", told("abc")), ev(6, 1, "x")]))
    follower.moved_to(7)
    follower.take(start(8, base("abc"), "other"))
    follower.take(events(8, 1, "d"))
    follower.take(final(8, 2))
    assert await follower.next() == [Content("c"), Content("d")]
    assert await follower.next() == DONE
    assert follower.started == "other"


async def test_a_start_may_overtake_what_became_of_handing_on(desk: Noted) -> None:
    follower = await begun(desk)
    follower.take(lost(6))
    follower.hand_on()
    follower.take(start(8, base("ab")))
    follower.take(events(8, 1, "c"))
    follower.moved_to(7)
    follower.take(events(8, 2, "d"))
    assert await text(follower) == "cd"


async def test_an_attempt_from_another_text_is_not_followed(desk: Noted) -> None:
    follower = await begun(desk)
    for other in ("", base("ax")):
        follower.take(start(8, other))
        follower.take(events(8, 1, "y"))
    assert await text(follower) == ""
    assert set(desk.wants) == {"catch_up"}


@pytest.mark.parametrize(
    "said",
    [[Reasoning("hm")], [Content("a"), ToolDelta(0, "id", "name")], [Content("a"), Content("b", 1)]],
    ids=["thinking", "a tool call", "several answers"],
)
async def test_what_cannot_be_gone_on_with_ends(desk: Noted, said: list[Event]) -> None:
    follower = following(desk)
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", said))
    assert await follower.next() == said
    follower.take(lost(6))
    assert desk.wants == ["settle"]
    assert await follower.next() == End("failed", INTERRUPTED)


async def test_where_nobody_saw_a_word_it_begins_anew(desk: Noted) -> None:
    follower = following(desk)
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [Reasoning("hm")]))
    follower.take(lost(6))
    assert desk.wants == ["requeue"]
    assert follower.hand_on() == Said()
    follower.moved_to(7)
    follower.take(start(8))
    follower.take(events(8, 1, "new"))
    assert await text(follower) == "new"


async def test_what_an_engine_says_of_itself_is_no_word(desk: Noted) -> None:
    follower = following(desk, resume=False)
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [Origin("engine")]))
    assert await follower.next() == [Origin("engine")]
    follower.take(lost(6))
    assert follower.hand_on() == Said()


async def test_vectors_come_anew(desk: Noted) -> None:
    follower = following(desk, chat=None)
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [Vector(0, b"1234")]))
    await follower.next()
    follower.given = 0
    follower.take(lost(6))
    assert follower.hand_on() == Said()
    follower.take(start(8))
    follower.take(Part("a", 8, 1, "ev", [Vector(0, b"1234")]))
    assert await follower.next() == [Vector(0, b"1234")]


async def test_an_answer_that_lacks_only_its_figures_is_done(desk: Noted) -> None:
    follower = await begun(desk)
    follower.take(Part("a", 5, 3, "ev", [Finish("stop")]))
    follower.take(lost(6))
    assert desk.wants == ["settle"]
    assert await follower.next() == [Finish("stop")]
    assert await follower.next() == DONE


async def test_of_several_answers_one_that_has_ended_is_not_all(desk: Noted) -> None:
    follower = following(desk, chat=msgspec.structs.replace(CHAT, n=2))
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [Content("a"), Finish("stop")]))
    await follower.next()
    follower.take(lost(6))
    assert await follower.next() == End("failed", INTERRUPTED)


async def test_what_came_while_it_stayed_where_it_was_is_read_again(desk: Noted) -> None:
    follower = await begun(desk)
    assert follower.fix() == Said("ab")
    follower.take(events(5, 3, "c"))
    assert await text(follower) == ""
    follower.stay()
    assert desk.wants == ["catch_up"]
    follower.take_folded(fold([mark("5-0", "start"), ev(5, 1, "a", "b", "c")]))
    follower.take(events(5, 4, "d"))
    assert await text(follower) == "cd"
    assert follower.behind_since is None


async def test_where_it_was_restored_events_count_from_one(desk: Noted) -> None:
    follower = await begun(desk)
    follower.fix()
    follower.take(events(5, 3, "x"))
    follower.moved_to(9, waiting=False)
    follower.take(events(5, 4, "x"))
    follower.take(events(9, 1, "c"))
    follower.take(events(9, 2, "d"))
    assert await text(follower) == "cd"
    assert (follower.known_to_run, follower.behind_since) == (True, None)


async def test_after_catching_up_an_end_is_told_once(desk: Noted) -> None:
    follower = await begun(desk)
    follower.take(Part("a", 5, 3, "ev", [Finish("stop")]))
    assert await follower.next() == [Finish("stop")]
    finish = Part("a", 5, 0, "ev", [Finish("stop")])
    entries = [mark("7-0", "snap", told("a")), mark("8-0", "start", base("a")), ev(8, 1, "b")]
    folded = fold(entries)
    folded.events += finish.events
    folded.n += 1
    follower.take_folded(folded)
    assert await text(follower) == ""
    assert (follower.fence, follower.n) == (8, 2)


async def test_without_its_client_a_detached_answer_is_only_heard(desk: Noted) -> None:
    follower = await begun(desk, job=job("a", det=True))
    follower.take(Part("a", 5, 3, "ev", [Content("x" * 1_100_000)]))
    follower.close()
    assert desk.wants == ["pause", "go", "forget"]
    follower.take(Part("a", 5, 4, "ev", [Content("y" * 1_100_000)]))
    assert (follower.ready, follower.wanted) == (False, True)
    follower.take(lost(6))
    said = follower.hand_on()
    assert said is not None
    assert len(said.text) == 2_200_002
    follower.moved_to(7)
    follower.take(start(8, fingerprint(said)))
    follower.take(final(8, 1))
    assert desk.wants[-1] == "forget"
    assert not follower.wanted


async def test_a_detached_answer_never_begins_anew_over_words(desk: Noted) -> None:
    follower = following(desk, job=job("a", det=True), resume=False)
    follower.take(start(5))
    follower.take(events(5, 1, "ab"))
    follower.take(lost(6))
    assert follower.hand_on() is None


async def test_a_worker_is_reminded_to_stop_and_to_go_on(desk: Noted) -> None:
    follower = following(desk)
    follower.take(start(5))
    follower.remind()
    assert desk.wants == []
    follower.take(Part("a", 5, 1, "ev", [Content("x" * 1_100_000)]))
    follower.remind()
    assert desk.wants == ["pause", "pause"]
    await follower.next()
    for _ in range(10):
        follower.remind()
    assert desk.wants[2:] == ["go"] * 4

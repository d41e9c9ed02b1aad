"""A follower whose answer changes hands."""

from __future__ import annotations

from buffer.failures import INTERRUPTED
from buffer.fold import fold
from buffer.follower import Follower
from buffer.frames import Part
from buffer.heard import Said
from buffer.job import Content, End, ToolDelta
from tests.buffer.parts import Noted, events, start, text
from tests.buffer.test_fold import base, ev, mark, told


async def test_a_death_before_the_first_word_is_a_requeue(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "unread"))
    follower.take(Part("a", 6, 0, "lost"))
    assert desk.wants == ["requeue"]
    follower.take(events(5, 7, "late"))
    follower.moved_to(7)
    follower.take(start(8))
    follower.take(events(8, 1, "new"))
    assert await text(follower) == "new"


async def test_a_start_may_overtake_the_answer_to_the_requeue(follower: Follower) -> None:
    follower.take(start(5))
    follower.take(Part("a", 6, 0, "lost"))
    follower.take(start(8))
    follower.take(events(8, 1, "n"))
    follower.moved_to(7)
    follower.take(events(8, 2, "ew"))
    assert await text(follower) == "new"


async def test_a_death_after_the_first_word_is_the_end(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "a"))
    assert await text(follower) == "a"
    follower.take(events(5, 2, "b"))
    follower.take(Part("a", 6, 0, "lost"))
    assert desk.wants == ["settle"]
    assert follower.fence == 6
    assert await follower.next() == [Content("b")]
    assert await follower.next() == End("failed", INTERRUPTED)


async def test_a_death_that_only_the_reply_key_tells_of(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "a"))
    follower.take_folded(fold([mark("5-0", "start"), ev(5, 1, "a"), mark("6-0", "lost")]))
    assert desk.wants == ["requeue"]


async def test_a_retry_goes_on_where_the_text_is_the_same(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "ab"))
    assert await text(follower) == "ab"
    follower.take(Part("a", 5, 3, "again", [], told("ab")))
    follower.take(start(6, base("ab"), "other"))
    follower.take(events(6, 1, "c"))
    assert await text(follower) == "c"
    assert (follower.started, desk.wants) == ("other", [])


async def test_text_that_was_given_is_never_begun_again(follower: Follower, desk: Noted) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "ab"))
    assert await text(follower) == "ab"
    follower.take(start(6))
    follower.take(events(6, 1, "xy"))
    assert await text(follower) == ""
    assert set(desk.wants) == {"catch_up"}
    follower.take_folded(fold([mark("5-0", "start"), ev(5, 1, "a", "b"), mark("6-0", "start"), ev(6, 1, "x", "y")]))
    assert await text(follower) == ""
    assert follower.behind_since is not None


async def test_catching_up_over_a_retry(follower: Follower) -> None:
    follower.take(start(5))
    follower.take(events(5, 1, "ab"))
    assert await text(follower) == "ab"
    entries = [
        mark("5-0", "start"),
        mark("5-5", "again", told("abcd")),
        mark("6-0", "start", base("abcd")),
        ev(6, 1, "e", "f"),
    ]
    follower.take_folded(fold(entries))
    assert await text(follower) == "cdef"
    follower.take(events(6, 3, "g"))
    assert await text(follower) == "g"


async def test_more_than_words_cannot_be_matched_by_words(follower: Follower) -> None:
    follower.take(start(5))
    follower.take(Part("a", 5, 1, "ev", [ToolDelta(0, "id", "name")]))
    await follower.next()
    follower.take_folded(fold([mark("5-5", "again", told("ab")), mark("6-0", "start", base("ab")), ev(6, 1, "c")]))
    assert await text(follower) == ""


async def test_one_that_was_adopted_sooner_than_its_gateway_heard_of_it_runs(follower: Follower) -> None:
    """Should the store be emptied once more, whoever is at it is waited for again."""
    follower.take(start(5))
    follower.take(events(5, 1, "a"))
    assert follower.fix() == Said("a")
    follower.take(events(6, 1, "b"))
    follower.moved_to(6, waiting=False)
    follower.take_folded(fold([mark("6-0", "snap", told("a")), ev(6, 1, "b")]))
    assert await text(follower) == "ab"
    assert follower.known_to_run

"""What comes while somebody waits for it goes straight on, and wakes nobody; everything else is given out as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from buffer.follower import Follower
from buffer.job import Content, End, Event
from tests.buffer.parts import events, final, start


class Client:
    """Whoever takes what goes straight on."""

    def __init__(self) -> None:
        self.got = ""
        self.takes = True

    def take(self, came: list[Event]) -> bool:
        if self.takes:
            self.got += words(came)
        return self.takes


def words(came: list[Event] | End) -> str:
    assert not isinstance(came, End)
    return "".join(event.text for event in came if isinstance(event, Content))


async def waiting(follower: Follower, take: Callable[[list[Event]], bool]) -> asyncio.Task[list[Event] | End]:
    follower.take(start(5))
    follower.straight_to(take)
    reading = asyncio.create_task(follower.next())
    await asyncio.sleep(0)
    return reading


async def test_words_go_straight_on_and_only_the_end_wakes_who_waits(follower: Follower) -> None:
    client = Client()
    reading = await waiting(follower, client.take)
    for n, letter in enumerate("abc", 1):
        follower.take(events(5, n, letter))
        await asyncio.sleep(0)
    assert (client.got, follower.given, reading.done()) == ("abc", 3, False)
    follower.take(final(5, 4))
    assert await reading == End("done")


async def test_what_a_client_does_not_take_is_given_out_and_nothing_overtakes_it(follower: Follower) -> None:
    client = Client()
    reading = await waiting(follower, client.take)
    client.takes = False
    follower.take(events(5, 1, "a"))
    client.takes = True
    follower.take(events(5, 2, "b"))
    assert words(await reading) == "ab"
    follower.take(events(5, 3, "c"))
    assert client.got == ""
    assert words(await follower.next()) == "c"


async def test_nothing_goes_straight_on_once_whoever_waits_is_cancelled(follower: Follower) -> None:
    client = Client()
    reading = await waiting(follower, client.take)
    reading.cancel()
    follower.take(events(5, 1, "a"))
    assert client.got == ""
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert words(await follower.next()) == "a"


async def test_a_failure_on_the_way_is_told_whoever_waits(follower: Follower) -> None:
    def fails(_: list[Event]) -> bool:
        raise ValueError("cannot be said")

    reading = await waiting(follower, fails)
    follower.take(events(5, 1, "a"))
    with pytest.raises(ValueError, match="cannot be said"):
        await reading


async def test_what_went_straight_on_was_seen_and_no_other_attempt_begins_anew(follower: Follower) -> None:
    client = Client()
    reading = await waiting(follower, client.take)
    follower.take(events(5, 1, "a"))
    assert not follower.may_begin_anew()
    follower.close()
    assert not follower.ended
    reading.cancel()


async def test_whoever_comes_after_one_that_had_a_limit_has_none(follower: Follower) -> None:
    follower.take(start(5))
    soon_at = asyncio.get_running_loop().time() + 0.1
    impatient = asyncio.create_task(follower.next(soon_at))
    await asyncio.sleep(0)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    patient = asyncio.create_task(follower.next())
    await asyncio.sleep(0.3)
    assert not patient.done()
    follower.take(events(5, 1, "ab"))
    assert words(await patient) == "ab"

"""Parts of frames, and a follower's desk that only takes notes."""

from __future__ import annotations

import asyncio

from buffer.desk import Want
from buffer.follower import Follower
from buffer.frames import Part
from buffer.job import Content, End, encode_end


class Noted:
    """A desk that only notes what is wanted."""

    def __init__(self) -> None:
        self.wants: list[Want] = []

    def want(self, follower: Follower, what: Want) -> None:
        self.wants.append(what)


def events(fence: int, n: int, text: str) -> Part:
    return Part("a", fence, n, "ev", [Content(letter) for letter in text])


def start(fence: int, base: str = "", backend: str = "b") -> Part:
    return Part("a", fence, 0, "start", [], f"{base} {backend}")


def final(fence: int, n: int, kind: str = "done") -> Part:
    return Part("a", fence, n, kind, [], encode_end(End(kind)).decode())  # type: ignore[arg-type]


async def text(follower: Follower) -> str:
    """What can be had now."""
    got = ""
    while True:
        try:
            async with asyncio.timeout(0):
                one = await follower.next()
        except TimeoutError:
            return got
        assert not isinstance(one, End)
        got += "".join(event.text for event in one if isinstance(event, Content))

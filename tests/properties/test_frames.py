"""P12: however an answer's parts are cut, repeated, mixed up or come late, the client reads the same words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.desk import Want
from buffer.fold import fold
from buffer.follower import Follower
from buffer.frames import Part
from buffer.job import Content, End, encode_end, encode_events
from tests.properties import text as reference
from tests.properties.following import Following

Entry = tuple[str, dict[bytes, bytes]]
DONE = encode_end(End("done"))


@dataclass
class Answer:
    """One answer over several attempts, whole: as single parts, and as entries of the reply key."""

    parts: list[Part] = field(default_factory=list)
    text: str = ""

    @classmethod
    def of(cls, lengths: list[int]) -> Answer:
        """So many words an attempt; each but the last gives the job back."""
        answer = cls()
        for number, length in enumerate(lengths):
            fence = 10 * (number + 1)
            answer.parts.append(Part("j", fence, 0, "start", [], f"{reference.fingerprint(answer.text)} b{number}"))
            for n in range(1, length + 1):
                piece = f"{len(answer.parts)}.{number} "
                answer.parts.append(Part("j", fence, n, "ev", [Content(piece)]))
                answer.text += piece
            last = number == len(lengths) - 1
            ending = Part("j", fence, length + 1, "done", [], DONE.decode()) if last else None
            answer.parts.append(ending or Part("j", fence, length + 1, "again", [], reference.snapshot(answer.text)))
        return answer


def joined(parts: list[Part], cuts: list[bool]) -> list[Part]:
    """Neighbouring events of one attempt in one part, but where it is cut."""
    frames: list[Part] = []
    for part, cut in zip(parts, cuts, strict=True):
        last = frames[-1] if frames else None
        if last and part.kind == last.kind == "ev" and part.fence == last.fence and not cut:
            frames[-1] = Part("j", last.fence, last.n, "ev", [*last.events, *part.events])
        else:
            frames.append(part)
    return frames


def entries(parts: list[Part]) -> list[Entry]:
    def fields(part: Part) -> dict[bytes, bytes]:
        data = encode_events(part.events) if part.kind == "ev" else part.data.split(" b")[0].encode()
        if part.kind in ("again", "done"):
            data = part.data.encode()
        return {b"k": part.kind.encode(), b"n": str(part.n).encode(), b"d": data}

    return [(f"{part.fence}-{part.n + max(len(part.events) - 1, 0)}", fields(part)) for part in parts]


@st.composite
def journeys(draw: st.DrawFn) -> tuple[Answer, list[Part], list[Entry]]:
    """An answer, the parts as they come to the gateway, and its reply key."""
    answer = Answer.of(draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)))
    flags = st.lists(st.booleans(), min_size=len(answer.parts), max_size=len(answer.parts))
    frames, reply = joined(answer.parts, draw(flags)), entries(joined(answer.parts, draw(flags)))
    again = draw(st.lists(st.integers(0, len(frames) - 1), max_size=6))
    stale = [frames[i] for i in again]
    came = frames + stale
    if draw(st.booleans()):
        came = draw(st.permutations(came))
    else:
        for part in stale:
            came.insert(draw(st.integers(0, len(came))), part)
    return answer, came, reply


class Desk:
    """Reads the reply key when it is asked to, as far as it has come by then."""

    def __init__(self) -> None:
        self.wanted: list[Want] = []

    def want(self, follower: Follower, what: Want) -> None:
        self.wanted.append(what)


async def follow(answer: Answer, came: list[Part], reply: list[Entry], reads: Iterator[int]) -> None:
    desk = Desk()
    follower = Follower(desk, "j")
    read, ends = "", 0

    async def client() -> None:
        nonlocal read, ends
        while follower.ready and not (follower.ended and ends):
            got = await follower.next()
            if isinstance(got, End):
                ends += 1
                assert got.kind == "done"
            else:
                assert not ends
                read += "".join(event.text for event in got if isinstance(event, Content))
        assert answer.text.startswith(read)

    seen = 0
    for part in came:
        follower.take(part)
        seen = max(seen, min(len(reply), next(reads)))
        if "catch_up" in desk.wanted and next(reads) % 2:
            follower.take_folded(fold(reply[:seen]))
        if next(reads) % 3 == 0:
            await client()
    follower.take_folded(fold(reply))
    await client()
    assert (read, ends) == (answer.text, 1)
    assert not {"requeue", "settle", "cancel"} & set(desk.wanted)


def endless(numbers: list[int]) -> Iterator[int]:
    while True:
        yield from numbers


@settings(max_examples=300, deadline=None)
@given(journeys(), st.lists(st.integers(0, 30), min_size=1, max_size=20))
def test_the_follower_gives_the_same_words(journey: tuple[Answer, list[Part], list[Entry]], reads: list[int]) -> None:
    asyncio.run(follow(*journey, endless(reads)))


@settings(max_examples=300, deadline=None)
@given(journeys(), st.lists(st.integers(0, 30), min_size=1, max_size=20))
def test_the_reference_gives_the_same_words(journey: tuple[Answer, list[Part], list[Entry]], reads: list[int]) -> None:
    answer, came, reply = journey
    read: list[str] = []
    ends: list[str] = []
    raw = [(entry_id.encode(), fields) for entry_id, fields in reply]
    following = Following(read.append, ends.append)
    numbers, seen = endless(reads), 0
    for part in came:
        pieces = [event.text for event in part.events if isinstance(event, Content)]
        outcome = following.part(part.fence, part.n, part.kind, pieces, part.data)
        seen = max(seen, min(len(reply), next(numbers)))
        if outcome == "behind" and next(numbers) % 2:
            following.caught_up(reference.fold(raw[:seen]))
        assert answer.text.startswith("".join(read))
    following.caught_up(reference.fold(raw))
    assert ("".join(read), ends) == (answer.text, ["done"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.data())
def test_both_folds_read_any_cut_the_same(lengths: list[int], data: st.DataObject) -> None:
    answer = Answer.of(lengths)
    flags = st.lists(st.booleans(), min_size=len(answer.parts), max_size=len(answer.parts))
    reply = entries(joined(answer.parts, data.draw(flags)))
    upto = data.draw(st.integers(0, len(reply)))
    folded, own = fold(reply[:upto]), reference.fold((one.encode(), fields) for one, fields in reply[:upto])
    assert (folded.whole().text, folded.fence) == (own.text, own.fence)
    assert (folded.end.kind if folded.end else "") == own.end
    assert answer.text.startswith(own.text)

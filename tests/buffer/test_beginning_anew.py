"""Which answers may be said once more from their first word: those of which nobody has read any, or can be told so."""

from __future__ import annotations

import pytest

from buffer.follower import Follower
from buffer.frames import Part
from buffer.job import Chat, Content, ToolDelta
from tests.buffer.jobs import job
from tests.buffer.parts import Noted


def following(desk: Noted, *, det: bool, whole: bool) -> Follower:
    follower = Follower(desk, "a", job=job("a", det=det), chat=Chat("m", []), whole=whole)
    follower.take(Part("a", 10, 0, "start", [], " b"))
    return follower


WAYS = [(False, False, True), (False, True, True), (True, True, True), (True, False, False)]


@pytest.mark.parametrize(("det", "whole", "may"), WAYS)
async def test_what_cannot_be_gone_on_from(desk: Noted, det: bool, whole: bool, may: bool) -> None:
    follower = following(desk, det=det, whole=whole)
    follower.take(Part("a", 10, 1, "ev", [Content("x"), ToolDelta(0, "c", "f", "{}")]))
    assert follower.may_begin_anew() is may
    follower.take(Part("a", 20, 0, "lost"))
    assert follower.ended is False
    assert desk.wants == ["requeue"]
    assert (follower.hand_on() is not None) is may


async def test_a_stream_that_was_given_out_never(desk: Noted) -> None:
    follower = following(desk, det=False, whole=False)
    follower.take(Part("a", 10, 1, "ev", [Content("x"), ToolDelta(0, "c", "f", "{}")]))
    await follower.next()
    assert not follower.may_begin_anew()
    follower.take(Part("a", 20, 0, "lost"))
    assert follower.ended

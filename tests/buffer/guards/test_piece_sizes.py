"""pull: how much of a long prompt goes at a time."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.documents import PIECES, WHOLE, document, sent
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import lifetime
from tests.buffer.jobs import pull, ready, running


@guard("_segment", "math.max(1, math.floor(segment / QUARTERS))", "math.floor(segment / QUARTERS)")
async def test_a_piece_is_of_one_token_at_least(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await sent(lanes, limits=Limits(slots=9, segment=2))).upto == 2


async def _beside(lanes: Lanes, kv: int) -> int:
    """How much is sent first of a prompt while so much of 1000 tokens of memory is taken."""
    await ready(lanes)
    await running(lanes, "other", kv=kv, prefill=0)
    return (await sent(lanes, limits=Limits(slots=9, segment=400, kv=1000))).upto


@guard("_segment", "math.max(quarter, size - size % quarter)", "size - size % quarter")
async def test_a_piece_is_a_quarter_of_a_segment_at_least(lanes: Lanes) -> None:
    assert await _beside(lanes, 990) == 100


@guard("_segment", "size - size % quarter", "size")
@guard("_segment", "* free)", ")")
async def test_it_is_of_whole_quarters_and_the_smaller_the_fuller_memory_is(lanes: Lanes) -> None:
    assert await _beside(lanes, 400) == 200


@guard("_segment", "credit.kv > 0 and 1 - load.kv / credit.kv or 1", "1 - load.kv / credit.kv")
async def test_where_memory_is_not_told_a_piece_is_a_segment(lanes: Lanes) -> None:
    await ready(lanes)
    await running(lanes, "other", kv=500)
    assert (await sent(lanes)).upto == 400


@guard("_segment", "not splits or ", "")
async def test_what_does_not_split_goes_whole(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await sent(lanes, splits=False)).upto == 0


@guard("_segment", "or lane == 'fast' or", "or")
async def test_what_is_fast_goes_whole(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await sent(lanes, lane="fast")).upto == 0


@guard("_segment", " or credit.segment == 0 then", " then")
@guard("_sending", "if credit.segment > 0 then", "if true then")
async def test_without_segments_it_goes_whole_and_without_a_pause(lanes: Lanes) -> None:
    await ready(lanes)
    assert (await sent(lanes, limits=WHOLE)).upto == 0
    assert await lifetime(lanes, "pace:b") == -2


@guard("_segment", "if credit.segment > 0 then", "if true then")
async def test_without_segments_the_bound_of_prefill_is_as_told(lanes: Lanes) -> None:
    await ready(lanes)
    for id in "ab":
        assert (await sent(lanes, id, limits=WHOLE)).id == id


@guard("_sending", "j.splits and j.base == ''", "j.splits")
async def test_one_that_has_said_something_goes_whole(lanes: Lanes) -> None:
    await ready(lanes)
    await document(lanes, "a")
    await lanes.store.redis.hset(lanes.keys.job("a"), "base", "x")
    assert (await pull(lanes, limits=PIECES)).jobs[0].upto == 0

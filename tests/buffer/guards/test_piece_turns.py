"""pull: when the next piece of a long prompt goes."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.documents import PIECES, WHOLE, document, half_read, is_read, pieces, sent, went
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import job, pull, ready

ROOM = "flight.all.prefill > 0 and flight.all.prefill + upto"
BEFORE = "if one.upto < one.prompt and one.upto > one.had and PLACE[one.lane] <= PLACE[lane] then"
TURN = "if half and ((not j and not jumps) or (j and not jumps and half.score <= j.score)) then"


@guard("_segment", "early and 1 or 2 *", "2 *")
@guard("_segment", "early and 1 or 2 *", "1 *")
async def test_two_pieces_are_under_way_with_a_pause_between(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await sent(lanes)
    assert (await pull(lanes, 0, limits=PIECES)).look_in_us == 100_000
    assert await pieces(lanes) == []
    clock.forward(0.1)
    assert await pieces(lanes) == [("a", 700)]


@guard("_sending", "flight.all.prefill + upto - half.upto > credit.prefill", "false")
async def test_not_three(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await sent(lanes)
    for expected in ([("a", 700)], []):
        clock.forward(0.1)
        assert await pieces(lanes) == expected


@guard("_sending", ROOM, "flight.all.prefill + upto")
@guard("pull", "(not j and not jumps) or ", "", where=TURN)
async def test_what_is_read_is_followed_at_once(lanes: Lanes) -> None:
    await half_read(lanes)
    assert await pieces(lanes) == [("a", 700)]


@guard("_sending", "if credit.prefill > 0 and flight", "if flight")
async def test_without_a_bound_what_is_half_read_goes_on_whole_beside_others(lanes: Lanes) -> None:
    await half_read(lanes, offset_us=9_000_000)
    await document(lanes, "other", lane="normal")
    pulled = await pull(lanes, limits=WHOLE)
    assert (went(pulled), [piece.upto for piece in pulled.pieces]) == (["other"], [0])


@guard("_sending", "and flight.reads_before(j.lane) then", "and false then")
@guard("_flight", "PLACE[one.lane] <= PLACE[lane]", "PLACE[one.lane] < PLACE[lane]")
async def test_one_prompt_of_a_lane_is_read_after_the_other(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await sent(lanes, offset_us=9_000_000)
    clock.forward(0.1)
    await document(lanes, "b")
    assert went(await pull(lanes, limits=PIECES)) == []


@guard("_flight", " and PLACE[one.lane] <= PLACE[lane] then", " then")
async def test_one_of_a_higher_lane_goes_between(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await sent(lanes)
    clock.forward(0.1)
    await document(lanes, "b", lane="normal")
    assert went(await pull(lanes, limits=PIECES)) == ["b"]


@guard("_flight", "one.upto < one.prompt and ", "", where=BEFORE)
async def test_behind_the_last_piece_of_one_the_next_begins(lanes: Lanes) -> None:
    clock, _ = await half_read(lanes, prefill=700)
    assert await pieces(lanes) == [("a", 0)]
    clock.forward(0.1)
    await document(lanes, "b")
    assert went(await pull(lanes, limits=PIECES)) == ["b"]


@guard("_flight", "one.upto > one.had and ", "", where=BEFORE)
async def test_beside_one_that_is_not_being_read_another_is(lanes: Lanes) -> None:
    clock, _ = await half_read(lanes, offset_us=9_000_000)
    await document(lanes, "n", lane="normal", prefill=100, splits=False)
    assert went(await pull(lanes, limits=PIECES)) == ["n"]
    clock.forward(0.1)
    await document(lanes, "b")
    assert went(await pull(lanes, limits=PIECES)) == ["b"]


@guard("_sending", "    return not flight.reads_before(half.lane)", "    return true")
@guard("pull", "    if sending.in_turn(half) then", "    if true then")
@guard("pull", "  if half.upto > half.had then", "  if true then")
async def test_of_two_that_are_half_read_one_is_read(lanes: Lanes) -> None:
    clock, _ = await half_read(lanes, prefill=550, offset_us=9_000_000)
    clock.forward(0.1)
    b = await sent(lanes, "b")
    await is_read(lanes, b, 400)
    clock.forward(0.1)
    assert await pieces(lanes, Limits(slots=9, segment=400)) == [("b", 700), ("b", 1000)]


@guard("_flight", "      if one.upto < one.prompt then\n        some", "      if true then\n        some")
async def test_of_a_whole_prompt_there_is_no_piece(lanes: Lanes) -> None:
    clock, _ = await half_read(lanes, offset_us=9_000_000)
    await document(lanes, "n", lane="normal", prefill=100, splits=False)
    assert went(await pull(lanes, limits=PIECES)) == ["n"]
    clock.forward(0.1)
    assert {id for id, _ in await pieces(lanes)} == {"a"}


@guard("_flight", "if one.upto < one.prompt then\n      flight", "if false then\n      flight")
@guard("_flight", "return a.score < b.score or", "return a.score > b.score or")
async def test_the_lowest_score_is_read_first(lanes: Lanes) -> None:
    await half_read(lanes, offset_us=9_000_000)
    await is_read(lanes, await sent(lanes, "b"), 400)
    assert [id for id, _ in await pieces(lanes)] == ["b"]


@guard("pull", "half.score <= j.score", "true", where=TURN)
async def test_who_has_the_lower_score_goes_before_the_next_piece(lanes: Lanes) -> None:
    await half_read(lanes, offset_us=9_000_000)
    await document(lanes, "b")
    pulled = await pull(lanes, limits=PIECES)
    assert (went(pulled), pulled.pieces) == (["b"], [])


@guard("pull", "half.score <= j.score", "false", where=TURN)
async def test_who_has_the_higher_one_does_not(lanes: Lanes) -> None:
    await half_read(lanes)
    await document(lanes, "b", offset_us=9_000_000)
    pulled = await pull(lanes, limits=PIECES)
    assert (went(pulled), [piece.id for piece in pulled.pieces]) == ([], ["a"])


@guard("pull", "j and not jumps and half.score", "j and half.score", where=TURN)
async def test_a_short_lanes_goes_before_it_whatever_the_scores_say(lanes: Lanes) -> None:
    await half_read(lanes)
    await document(lanes, "t", lane="thinking", prefill=600, splits=False, offset_us=9_000_000)
    pulled = await pull(lanes, limits=Limits(slots=9, segment=400))
    assert (went(pulled), pulled.pieces) == (["t"], [])


@guard("pull", "(not j and not jumps)", "not j", where=TURN)
@guard("pull", "elseif not jumps then\n    break", "elseif true then\n    break")
@guard("pull", "  if not j then\n    return nil, true", "  if false then\n    return nil, true")
async def test_behind_one_that_expired_the_next_goes_before_it_too(lanes: Lanes) -> None:
    clock, _ = await half_read(lanes, offset_us=9_000_000)
    await document(lanes, "old", timeout_us=1000)
    clock.forward(0.01)
    await document(lanes, "b")
    pulled = await pull(lanes, limits=PIECES)
    assert (went(pulled), pulled.pieces) == (["b"], [])


@guard("pull", "elseif j then\n    local need", "elseif true then\n    local need")
async def test_where_nobody_waits_a_pull_for_many_sends_the_piece(lanes: Lanes) -> None:
    await half_read(lanes)
    assert len((await pull(lanes, 9, limits=PIECES)).pieces) == 1


@guard("_sending", "    elseif j.lane ~= 'fast' then\n", "    else\n")
async def test_after_a_fast_job_there_is_no_pause(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await sent(lanes)
    clock.forward(0.1)
    await lanes.submit(job("f"))
    pulled = await pull(lanes, limits=PIECES)
    assert (went(pulled), len(pulled.pieces)) == (["f"], 1)

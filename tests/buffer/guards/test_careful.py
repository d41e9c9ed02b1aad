"""pull: how background work is read while people are about."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Granted, Limits
from tests.buffer.guards.documents import document, is_read, pieces, sent, went
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import Clock, job, pull, ready
from tests.buffer.losing import DONE

SEGMENT = Limits(slots=9, segment=400, pause_us=100_000)
"""Its least piece is a hundred tokens; with care, a piece has fifty at most."""
WAITS = " and not sending.waits_behind(j.lane, need.prefill)"
GRANTED = " then\n      grant(j)\n    else\n"


async def person(lanes: Lanes, *, read: bool = True, id: str = "p", **fields: object) -> Granted:
    """A person's job that runs; ``read``: its first token has come."""
    await lanes.submit(job(id, **{"lane": "fast", "kv": 0, **fields}))
    (granted,) = (await pull(lanes, limits=SEGMENT)).jobs
    if read:
        await is_read(lanes, granted, 0)
    return granted


async def about(lanes: Lanes, **fields: object) -> Clock:
    clock = await ready(lanes)
    await person(lanes, **fields)  # type: ignore[arg-type]
    return clock


async def behind(lanes: Lanes, id: str = "b", prefill: int = 300) -> Granted | None:
    """What a line of an offline batch gets."""
    await document(lanes, id, lane="background", prefill=prefill)
    jobs = (await pull(lanes, limits=SEGMENT)).jobs
    return jobs[0] if jobs else None


async def upto(lanes: Lanes, id: str = "b", prefill: int = 300) -> int | None:
    granted = await behind(lanes, id, prefill)
    return None if granted is None else granted.upto


@guard("_segment", "math.floor(segment / CARE)", "segment")
@guard("_segment", "careful and careful_segment(credit.segment) or credit.segment", "credit.segment")
@guard("_segment", "careful and segment or piece_tokens(had, segment, credit.free)", "piece_tokens(had, segment, 0.5)")
async def test_its_pieces_are_small_while_people_are_about(lanes: Lanes) -> None:
    await about(lanes)
    assert await upto(lanes) == 50


@guard("_flight", "if one.lane ~= 'background' then", "if false then")
async def test_as_long_as_a_persons_job_runs(lanes: Lanes) -> None:
    clock = await about(lanes)
    clock.forward(61)
    assert await upto(lanes) == 50


@guard("_sending", "return lane == 'background' and credit", "return credit")
async def test_a_persons_document_is_read_as_ever(lanes: Lanes) -> None:
    await about(lanes)
    assert (await sent(lanes, "d", SEGMENT)).upto == 400


@guard("_flight", "if one.lane ~= 'background' then", "if true then")
async def test_alone_it_is_read_as_anything_else(lanes: Lanes) -> None:
    await ready(lanes)
    await sent(lanes, "a", SEGMENT, lane="background", prefill=100)
    clock = lanes.clock
    assert isinstance(clock, Clock)
    clock.forward(0.1)
    assert await upto(lanes) == 0


@guard("_sending", "credit.segment > 0 and (now", "(now")
async def test_whole_where_nothing_is_read_in_pieces(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("p", kv=0))
    await pull(lanes, limits=Limits(slots=9))
    await document(lanes, "b", lane="background")
    assert went(await pull(lanes, limits=Limits(slots=9))) == ["b"]


@guard("_sending", "now < heeds().till or ", "")
@guard("_sending", "if j.lane ~= 'background' and credit.segment > 0 then", "if false then")
@guard("_sending", "if heed and heed.changed then", "if false then")
async def test_and_for_a_minute_after_them(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await person(lanes)
    await lanes.settle(granted.id, granted.fence, 1, DONE)
    clock.forward(59)
    assert await upto(lanes) == 50


async def test_then_no_more(lanes: Lanes) -> None:
    clock = await ready(lanes)
    granted = await person(lanes)
    await lanes.settle(granted.id, granted.fence, 1, DONE)
    clock.forward(61)
    assert await upto(lanes, prefill=500) == 400


@guard("_sending", "if j.lane ~= 'background' and credit.segment > 0 then", "if credit.segment > 0 then")
async def test_background_work_is_nobody_to_be_heeded(lanes: Lanes) -> None:
    clock = await ready(lanes)
    await sent(lanes, "a", SEGMENT, lane="background", prefill=100)
    clock.forward(0.1)
    assert await upto(lanes) == 0


@guard("_sending", "if flight.reads_people() then", "if false then")
@guard("_flight", "if one.lane ~= 'background' and one.upto > one.had then", "if false then")
async def test_not_while_a_persons_prompt_is_read(lanes: Lanes) -> None:
    await about(lanes, read=False)
    assert await upto(lanes) is None


@guard("_flight", "if one.lane ~= 'background' and one.upto > one.had then", "if one.lane ~= 'background' then")
async def test_but_when_it_is_read(lanes: Lanes) -> None:
    await about(lanes)
    assert await upto(lanes) == 50


@guard("_flight", "if one.lane ~= 'background' and one.upto > one.had then", "if one.upto > one.had then")
async def test_beside_another_of_its_kind(lanes: Lanes) -> None:
    clock = await about(lanes)
    await behind(lanes)
    clock.forward(0.1)
    assert await upto(lanes, "c") == 50


@guard("_sending", "if now < heeds().careful_at then", "if false then")
@guard("_sending", "sending.careful_at = heeds().careful_at", "", where="sending.careful_at = heeds().careful_at")
async def test_with_a_pause_between(lanes: Lanes) -> None:
    clock = await about(lanes)
    await behind(lanes)
    clock.forward(0.02)
    await document(lanes, "c", lane="background")
    pulled = await pull(lanes, limits=SEGMENT)
    assert (went(pulled), pulled.look_in_us) == ([], 30_000)


@guard("_sending", "under_way > 0 and under_way + tokens", "under_way + tokens")
async def test_one_that_is_larger_goes_alone(lanes: Lanes) -> None:
    await about(lanes)
    await document(lanes, "b", lane="background", splits=False)
    assert went(await pull(lanes, limits=SEGMENT)) == ["b"]


@guard("_sending", "    if not sending.careful(lane) then", "    if false then")
async def test_a_person_waits_for_no_pause_of_its(lanes: Lanes) -> None:
    await about(lanes)
    await behind(lanes)
    await lanes.submit(job("q", kv=0))
    assert went(await pull(lanes, limits=SEGMENT)) == ["q"]


@guard("_sending", "CARE_AHEAD * careful_segment(credit.segment)", "1000")
@guard("pull", WAITS, "", where=WAITS + GRANTED + "      leave")
async def test_two_pieces_at_a_time(lanes: Lanes) -> None:
    clock = await about(lanes)
    for id, expected in (("b", 50), ("c", 50), ("d", None)):
        assert await upto(lanes, id) == expected
        clock.forward(0.1)


@guard("_sending", "elseif not sending.careful(j.lane) and flight", "elseif flight")
async def test_two_of_them_are_read_side_by_side(lanes: Lanes) -> None:
    clock = await about(lanes)
    await behind(lanes)
    clock.forward(0.1)
    assert await upto(lanes, "c") == 50


@guard("_sending", "if careful and sending.waits_behind(half.lane, upto - half.upto) then", "if false then")
async def test_its_next_piece_waits_too(lanes: Lanes) -> None:
    clock = await about(lanes)
    granted = await behind(lanes)
    assert granted is not None
    await is_read(lanes, granted, 50)
    assert await pieces(lanes, SEGMENT) == []
    clock.forward(0.1)
    assert await pieces(lanes, SEGMENT) == [("b", 100)]
    clock.forward(0.02)
    assert await pieces(lanes, SEGMENT) == []


@guard("_sending", "    if sending.careful(half.lane) then\n      return half.upto <= half.had\n    end\n", "")
async def test_of_two_that_are_half_read_both_go_on(lanes: Lanes) -> None:
    clock = await about(lanes)
    first = await behind(lanes)
    clock.forward(0.1)
    second = await behind(lanes, "c")
    assert first is not None
    assert second is not None
    await is_read(lanes, second, 50)
    clock.forward(0.1)
    assert await pieces(lanes, SEGMENT) == [("c", 100)]


@guard("_sending", "    if careful then\n      sent", "    if false then\n      sent")
async def test_a_person_waits_for_no_piece_of_its(lanes: Lanes) -> None:
    clock = await about(lanes)
    granted = await behind(lanes)
    assert granted is not None
    await is_read(lanes, granted, 50)
    clock.forward(0.1)
    assert await pieces(lanes, SEGMENT) == [("b", 100)]
    await document(lanes, "d")
    assert went(await pull(lanes, limits=SEGMENT)) == ["d"]


@guard("pull", WAITS, "", where=WAITS + GRANTED + "      bar")
async def test_what_is_beyond_its_owners_share_waits_too(lanes: Lanes) -> None:
    await about(lanes)
    ours = {"lane": "background", "owner": "o", "share": 1}
    await document(lanes, "b", **ours)
    assert went(await pull(lanes, limits=SEGMENT)) == ["b"]
    await document(lanes, "c", **ours)
    assert went(await pull(lanes, limits=SEGMENT)) == []


@guard("_sending", "    if sending.careful(j.lane) then\n      sent", "    if false then\n      sent")
async def test_nor_for_its_first_piece(lanes: Lanes) -> None:
    await about(lanes)
    await behind(lanes)
    await document(lanes, "d")
    assert went(await pull(lanes, limits=SEGMENT)) == ["d"]

"""pull, prefilled and renew: what workers are told of pieces, and tell."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Granted, Held
from tests.buffer.guards.documents import half_read, is_read, pieces, sent
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.steps import ids_in, lifetime
from tests.buffer.jobs import carried, ready, record


@guard("_sending", "    if not j then\n", "    if false then\n")
async def test_of_one_without_a_record_nothing_goes(lanes: Lanes) -> None:
    await half_read(lanes)
    await lanes.store.redis.delete(lanes.keys.job("a"))
    assert await pieces(lanes) == []


@guard("_sending", "if j.worker == pull.worker then", "if true then")
async def test_the_worker_that_has_it_is_told(lanes: Lanes) -> None:
    _, granted = await half_read(lanes)
    await lanes.renew("w", [], 15.0)
    assert await pieces(lanes, worker="other") == []
    _, (told,) = await lanes.controls("w", "0-0", 0.01)
    assert told == ("piece", "a", granted.fence, 700)


@guard("_sending", "if j.worker == pull.worker then", "if false then")
async def test_it_is_told_by_its_own_pull(lanes: Lanes) -> None:
    await half_read(lanes)
    assert await pieces(lanes) == [("a", 700)]


@guard("_sending", "'NOMKSTREAM', ", "")
async def test_a_worker_that_is_gone_is_told_nothing(lanes: Lanes) -> None:
    await half_read(lanes)
    await pieces(lanes, worker="other")
    assert await lifetime(lanes, "ctl:w") == -2


@guard("_sending", "redis.pcall('XADD'", "call('XADD'")
async def test_a_word_that_is_refused_stops_nothing(lanes: Lanes) -> None:
    await half_read(lanes)
    await lanes.store.redis.set(lanes.keys.ctl("w"), "x", ex=60)
    assert await pieces(lanes, worker="other") == []
    assert (await record(lanes, "a"))["upto"] == "700"


@guard("prefilled", "if upto == 0 then", "if true then")
async def test_a_piece_is_not_the_first_token(lanes: Lanes) -> None:
    await half_read(lanes)
    fields = await record(lanes, "a")
    assert (fields["had"], fields["upto"]) == ("400", "400")
    assert not {"first", "read"} & fields.keys()


@guard("prefilled", "if upto == 0 then", "if false then")
async def test_the_first_token_ends_the_reading(lanes: Lanes) -> None:
    _, granted = await half_read(lanes)
    await is_read(lanes, granted, 0)
    assert await pieces(lanes) == []


@guard("prefilled", "math.min(j.upto, math.max(j.had, upto))", "math.max(j.had, upto)")
async def test_no_more_is_read_than_was_sent(lanes: Lanes) -> None:
    _, granted = await half_read(lanes)
    await is_read(lanes, granted, 900)
    assert (await carried(lanes))["had"] == "400"


@guard("prefilled", "math.max(j.had, upto)", "upto")
async def test_what_was_read_stays_read(lanes: Lanes) -> None:
    _, granted = await half_read(lanes)
    await is_read(lanes, granted, 100)
    assert (await carried(lanes))["had"] == "400"
    assert await ids_in(lanes, "load:b") == ["a"]


async def renewed(lanes: Lanes, granted: Granted) -> int:
    (renewed,) = await lanes.renew("w", [Held(granted.id, granted.fence, "b")], 15.0)
    return renewed.upto


@guard("renew", "and j.upto < j.prompt and j.upto or 0", "and 0")
async def test_renew_tells_how_far_it_may_be_read(lanes: Lanes) -> None:
    _, granted = await half_read(lanes)
    assert await renewed(lanes, granted) == 400
    await pieces(lanes)
    assert await renewed(lanes, granted) == 700


@guard("renew", "and j.upto < j.prompt and", "and")
async def test_and_of_one_that_was_sent_whole_that_it_may_all(lanes: Lanes) -> None:
    await ready(lanes)
    assert await renewed(lanes, await sent(lanes, splits=False)) == 0


@guard("renew", "result[1] == 'ok' and j", "j and j")
async def test_of_a_cancelled_one_nothing_more_is_to_be_read(lanes: Lanes) -> None:
    _, granted = await half_read(lanes)
    await lanes.cancel("a")
    assert await renewed(lanes, granted) == 0

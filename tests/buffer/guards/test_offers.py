"""Standing orders: which job goes to an idle worker as it is submitted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from buffer.lanes import Lanes
from buffer.records import Limits
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.places import has_loaded
from tests.buffer.guards.steps import ids_in, length, lifetime
from tests.buffer.jobs import LEASE_S, job, pull, ready

PIECES = Limits(slots=9, segment=400, pause_us=100_000)


@asynccontextmanager
async def idle(
    lanes: Lanes, *, orders: Sequence[str] = ("b",), ctl: bool = True, heard: bool = True, **more: Any
) -> AsyncIterator[bool]:
    """A worker that has left standing orders for these back ends. False: the embedded store has none."""
    await ready(lanes)
    if lanes.store.embedded:
        yield False
        return
    if ctl:
        await lanes.renew("w", [], LEASE_S)
    wire = await lanes.store.attend(lanes.keys.ctl("w")) if heard else None
    try:
        for backend in orders:
            await lanes.stand("w", backend, ["m"], **{"limits": Limits(slots=9), "lease_s": LEASE_S, **more})
        yield True
    finally:
        if wire is not None:
            wire.close()


async def _state(lanes: Lanes, id: str = "a", **fields: Any) -> str:
    return (await lanes.submit(job(id, **fields), offer=True)).state


async def test_a_job_goes_to_an_idle_worker(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes) == "running"


@guard("_offer", "if call('EXISTS', ctl) == 0 then", "if false then", servers_only=True)
async def test_not_to_one_whose_stream_is_gone(lanes: Lanes) -> None:
    async with idle(lanes, ctl=False) as there:
        assert not there or await _state(lanes) == "waiting"


@guard("_offer", "not told.err and tonumber(told[2]) > 0", "true", servers_only=True)
async def test_nor_to_one_that_is_gone_itself(lanes: Lanes) -> None:
    async with idle(lanes, heard=False) as there:
        assert not there or await _state(lanes) == "waiting"


@guard("_offer", "(j.near == '' or j.near == backend) and ", "", servers_only=True)
async def test_a_job_whose_beginning_another_back_end_holds_is_not_offered(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes, near="other") == "waiting"


@guard("_offer", "string.find(order, '\\31' .. j.model .. '\\31', 1, true)\n        and ", "", servers_only=True)
async def test_nor_one_of_another_model(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes, model="n") == "waiting"


@guard("_offer", "call('EXISTS', P .. 'load:' .. backend) == 0 and ", "", servers_only=True)
async def test_nor_any_while_something_runs_there(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or [await _state(lanes, id) for id in ("a", "b")] == ["running", "waiting"]


@guard("_offer", "if swaps == '0' or call(", "if true or call(", servers_only=True)
async def test_nor_where_its_model_would_have_to_be_loaded(lanes: Lanes) -> None:
    async with idle(lanes, swaps=True) as there:
        assert not there or await _state(lanes) == "waiting"


@guard("_offer", "call('HGET', P .. 'memory:' .. backend, 'model') == j.model", "false", servers_only=True)
async def test_where_it_is_loaded_it_goes(lanes: Lanes) -> None:
    async with idle(lanes, swaps=True) as there:
        await has_loaded(lanes, "b", "m")
        assert not there or await _state(lanes) == "running"


@guard("_offer", "if j.lane == 'background' or ", "if ", servers_only=True)
async def test_background_work_is_not_offered(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes, lane="background") == "waiting"


@guard("_offer", " or j.behind ~= '' then", " then", servers_only=True)
async def test_nor_what_waits_for_another_job_to_be_read(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes, behind="leader") == "waiting"


@guard("_submitting", "waiting == 0 and inputs", "inputs", servers_only=True)
async def test_nor_any_while_somebody_waits(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or [await _state(lanes, "n", model="n"), await _state(lanes)] == ["waiting", "waiting"]


@guard("_submitting", "and inputs == 0 and ", "and ", servers_only=True)
async def test_nor_embeddings(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes, inputs=1) == "waiting"


@guard("_offer", "if segment > 0 then", "if true then", servers_only=True)
async def test_where_prompts_are_not_read_in_pieces_nothing_is_noted_of_them(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        assert not there or await _state(lanes, lane="normal") == "running"
        assert [await lifetime(lanes, f"{name}:b") for name in ("heed", "pace")] == [-2, -2]


@guard("_offer", "if segment > 0 then", "if false then", servers_only=True)
async def test_where_they_are_the_next_pull_knows_of_it(lanes: Lanes) -> None:
    async with idle(lanes, limits=PIECES) as there:
        if there:
            assert await _state(lanes, lane="normal") == "running"
            assert min([await lifetime(lanes, f"{name}:b") for name in ("heed", "pace")]) > 30


@guard("_offer", "if j.lane ~= 'fast' then", "if true then", servers_only=True)
async def test_nobody_is_to_wait_for_a_fast_one_to_be_read(lanes: Lanes) -> None:
    async with idle(lanes, limits=PIECES) as there:
        assert not there or await _state(lanes, lane="fast") == "running"
        assert await lifetime(lanes, "pace:b") == -2


@guard("_bell", "if call('EXISTS', P .. 'standing') == 1 then", "if true then")
async def test_where_nobody_has_an_order_no_bell_rings_for_a_job(lanes: Lanes) -> None:
    await ready(lanes)
    await lanes.submit(job("a"))
    assert await length(lanes, "bell") == 0


@guard("_bell", "if call('EXISTS', P .. 'standing') == 1 then", "if false then", servers_only=True)
async def test_where_somebody_has_one_it_rings(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        await lanes.submit(job("a"))
        assert not there or await length(lanes, "bell") == 1


@guard(
    "_offer",
    "if call('EXISTS', P .. 'wait:' .. queue, P .. 'turn:' .. queue) > 0 then",
    "if false then",
    servers_only=True,
)
async def test_what_a_lost_record_has_left_is_for_a_pull_to_find(lanes: Lanes) -> None:
    async with idle(lanes) as there:
        if not there:
            return
        for number, left in enumerate(("wait", "turn")):
            key = f"{lanes.keys.base}{left}:m:fast"
            await lanes.store.redis.zadd(key, {"0000000000000001:lost": 1})
            assert await _state(lanes, f"a{number}") == "waiting"
            await lanes.cancel(f"a{number}")
            await lanes.store.redis.delete(key)


@guard("renew", "if holds > 0 then", "if true then")
async def test_who_has_no_order_renews_none(lanes: Lanes) -> None:
    await lanes.renew("w", [], LEASE_S)
    assert await length(lanes, "bell") == 0


@guard("renew", "if holds > 0 then", "if false then", servers_only=True)
@guard("renew", "if held < now then", "if false then")
async def test_that_the_store_has_lost_the_orders_is_told(lanes: Lanes) -> None:
    await lanes.renew("w", [], LEASE_S, stands=True)
    assert await length(lanes, "bell") == 1


@guard("renew", "if call('PEXPIRE', P .. 'orders:' .. worker, math.ceil(holds / 1000)) == 1 then", "if false then")
@guard("renew", "if held < now then", "if true then")
async def test_orders_that_are_there_are_renewed(lanes: Lanes) -> None:
    await lanes.stand("w", "b", ["m"], limits=Limits(slots=9), lease_s=LEASE_S)
    await lanes.renew("w", [], LEASE_S, stands=True)
    assert await length(lanes, "bell") == 0


@guard("renew", "if call('PEXPIRE', P .. 'orders:' .. worker, math.ceil(holds / 1000)) == 1 then", "if true then")
async def test_orders_that_alone_were_lost_are_told(lanes: Lanes) -> None:
    await lanes.stand("w", "b", ["m"], limits=Limits(slots=9), lease_s=LEASE_S)
    await lanes.store.redis.delete(lanes.keys.base + "orders:w")
    await lanes.renew("w", [], LEASE_S, stands=True)
    assert await length(lanes, "bell") == 1


async def test_orders_that_did_not_hold_are_told(lanes: Lanes) -> None:
    await lanes.stand("w", "b", ["m"], limits=Limits(slots=9), lease_s=LEASE_S)
    await lanes.store.redis.delete(lanes.keys.base + "standing")
    await lanes.renew("w", [], LEASE_S, stands=True)
    assert await length(lanes, "bell") == 1
    assert await ids_in(lanes, "standing") == ["w"]


@guard("stand", "if holds == 0 then", "if false then")
@guard("stand", "if call('EXISTS', orders) == 0 then", "if false then")
async def test_an_order_is_taken_back(lanes: Lanes) -> None:
    await lanes.stand("w", "b", ["m"], limits=Limits(slots=9), lease_s=LEASE_S)
    await lanes.unstand("w", "b")
    assert await ids_in(lanes, "orders:w") == await ids_in(lanes, "standing") == []
    assert await length(lanes, "bell") == 1


@guard("stand", "if call('EXISTS', orders) == 0 then", "if true then", servers_only=True)
async def test_the_others_stand(lanes: Lanes) -> None:
    async with idle(lanes, orders=("b", "c")) as there:
        await lanes.unstand("w", "b")
        assert not there or await _state(lanes) == "running"
        assert not there or (await pull(lanes, 0, backend="c")).stands

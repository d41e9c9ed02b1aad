"""offline_create, offline_hold, offline_move, offline_settle: offline batches."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from buffer import offline as offline_module
from buffer.files import Files
from buffer.lanes import Lanes
from buffer.offline import LineUsage, NoRoom, Offline, OfflineBatch, Superseded, UnknownFile, undone
from buffer.offline_keys import KEPT_S, READ_S
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.test_full import full
from tests.offline.kept import ANN, LEASE_S, again, batch, kept, lines_of, result, running, upload

MANY = "if call('SCARD', open) >= tonumber(ARGV[8]) then"
OPEN = (
    "if status ~= 'validating' and status ~= 'in_progress' and status ~= 'finalizing' and status ~= 'cancelling' then"
)
HELD = "elseif holder ~= me and till > now then"


def house(lanes: Lanes) -> Offline:
    return Offline(lanes.store, Files(lanes.store, None))


async def lapse(offline: Offline, one: OfflineBatch) -> None:
    """Its runner's lease runs out."""
    await offline.store.redis.hset(offline.keys.batch(one.id), "until", 1)


# --- offline_create


@guard("offline_create", "if call('EXISTS', key) == 1 then", "if false then")
async def test_a_batch_begins_once(lanes: Lanes) -> None:
    offline = house(lanes)
    begun = kept(await upload(offline.files))
    await offline.create(begun)
    await offline.cancel(await again(offline, begun.id))
    await offline.create(begun)
    assert (await again(offline, begun.id)).status == "cancelling"


@guard("offline_create", "if call('EXISTS', file) == 0 then", "if false then")
async def test_without_its_file_it_does_not_begin(lanes: Lanes) -> None:
    offline = house(lanes)
    record = await upload(offline.files)
    await offline.files.delete(record)
    with pytest.raises(UnknownFile):
        await offline.create(kept(record))


@guard(
    "offline_create", "if call('SCARD', open) >= tonumber(ARGV[8]) then\n    return -1", "if false then\n    return -1"
)
async def test_one_owner_has_so_many(lanes: Lanes) -> None:
    offline = house(lanes)
    record = await upload(offline.files)
    with patch.object(offline_module, "MOST_OPEN", 1):
        await batch(offline, record)
        with pytest.raises(NoRoom):
            await batch(offline, record)


@guard("offline_create", f"{MANY}\n  for", "if true then\n  for")
async def test_those_that_are_lost_are_looked_for_where_there_are_too_many(lanes: Lanes) -> None:
    offline = house(lanes)
    record = await upload(offline.files)
    lost = await batch(offline, record)
    await offline.store.redis.delete(offline.keys.batch(lost.id))
    await batch(offline, record)
    (of_owner,) = await offline.store.redis.keys(f"{offline.keys.base}open:*")
    assert await offline.store.redis.scard(of_owner) == 2


@guard("offline_create", "if call('EXISTS', P .. 'batch:' .. id) == 0 then", "if false then")
async def test_one_that_is_lost_counts_no_more(lanes: Lanes) -> None:
    offline = house(lanes)
    record = await upload(offline.files)
    with patch.object(offline_module, "MOST_OPEN", 1):
        lost = await batch(offline, record)
        await offline.store.redis.delete(offline.keys.batch(lost.id))
        await batch(offline, record)


@guard("offline_create", "left >= 0 and left < tonumber(ARGV[7])", "left >= 0")
async def test_a_file_that_stays_longer_does_not_go_earlier(lanes: Lanes) -> None:
    offline = house(lanes)
    record = await upload(offline.files)
    await batch(offline, record)
    assert await offline.store.redis.ttl(offline.files.keys.file(record.id)) > READ_S


@guard("offline_create", "if over > 0 and call('SISMEMBER'", "if false and call('SISMEMBER'")
@guard("offline_create", "ZCARD', list) + 1", "ZCARD', list)")
@guard("offline_create", "over > 0 and call('SISMEMBER', open, id) == 0", "over > 0")
@guard("offline_create", "if over > 0 and call('SISMEMBER'", "if call('SISMEMBER'")
@guard("offline_create", "    over = over - 1\n", "")
@guard("offline_create", "over + tonumber(ARGV[8])", "over - 1")
async def test_the_oldest_that_has_ended_makes_room(lanes: Lanes) -> None:
    offline = house(lanes)
    record = await upload(offline.files)
    with patch.object(offline_module, "MOST_KNOWN", 3):
        begun = [await batch(offline, record) for _ in range(3)]
        for one in begun[1:]:
            fence = await offline.hold(one.id, "runner", LEASE_S)
            assert fence is not None
            await offline.move(one, fence, "failed", errors=[])
        newest = await batch(offline, record)
    found, _ = await offline.page(ANN)
    assert [one.id for one in found] == [newest.id, begun[2].id, begun[0].id]


# --- offline_hold


@guard("offline_hold", " and status ~= 'in_progress'", "")
async def test_what_is_open_is_held(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    assert await offline.renew(one.id, "runner", fence, LEASE_S)


@guard("offline_hold", OPEN, "if false then")
async def test_what_there_is_not_leaves_nothing(lanes: Lanes) -> None:
    offline = house(lanes)
    assert await offline.hold("batch_unknown", "a", LEASE_S) is None
    assert not await offline.store.redis.exists(offline.keys.batch("batch_unknown"))


@guard("offline_hold", " and till > now", "", where=HELD)
async def test_what_was_left_is_taken(lanes: Lanes) -> None:
    offline = house(lanes)
    one, _ = await running(offline)
    await lapse(offline, one)
    assert await offline.hold(one.id, "next", LEASE_S)


@guard("offline_hold", HELD, "elseif false then")
async def test_what_is_held_is_not_taken(lanes: Lanes) -> None:
    offline = house(lanes)
    one, _ = await running(offline)
    assert await offline.hold(one.id, "next", LEASE_S) is None


@guard("offline_hold", "holder ~= me and ", "", where=HELD)
async def test_one_that_asks_twice_is_told_the_same(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    assert await offline.hold(one.id, "runner", LEASE_S) == fence


@guard("offline_hold", "elseif holder ~= me then", "else")
async def test_the_fence_of_one_that_asks_twice_stays(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.hold(one.id, "runner", LEASE_S)
    assert await offline.settle(one.id, fence, [result(1)]) == 1


@guard("offline_hold", "if mine > 0 then", "if false then")
async def test_a_word_keeps_it_and_takes_nothing(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await lapse(offline, one)
    assert not await offline.renew(one.id, "other", fence, LEASE_S)


@guard("offline_hold", "if mine ~= fence or holder ~= me then", "if false then")
async def test_a_word_of_another_keeps_nothing(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    assert not await offline.renew(one.id, "other", fence, LEASE_S)
    assert not await offline.renew(one.id, "runner", fence - 1, LEASE_S)


@guard("offline_hold", "math.max(fence, now)", "now")
async def test_each_fence_is_later_than_the_last(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    far = fence + 10**12
    await offline.store.redis.hset(offline.keys.batch(one.id), mapping={"fence": far, "until": 1})
    assert await offline.hold(one.id, "next", LEASE_S) == far + 1


# --- offline_move


@guard("offline_move", "if tonumber(ARGV[3]) > 0 and v[2] ~= ARGV[3] then", "if false then")
async def test_who_runs_it_no_more_moves_nothing(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await lapse(offline, one)
    await offline.hold(one.id, "next", LEASE_S)
    with pytest.raises(Superseded):
        await offline.move(one, fence, "finalizing")


@guard("offline_move", "tonumber(ARGV[3]) > 0 and ", "")
async def test_anybody_may_have_it_cancelled(lanes: Lanes) -> None:
    offline = house(lanes)
    one, _ = await running(offline)
    assert (await offline.cancel(one)).status == "cancelling"


@guard("offline_move", "if v[1] ~= ARGV[4] then", "if false then")
async def test_it_goes_from_where_it_is(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.cancel(one)
    assert not await offline.move(one, fence, "finalizing")


@guard("offline_move", "if ARGV[6] == '1' then", "if true then")
async def test_what_is_open_keeps_what_it_needs(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1)])
    await offline.move(one, fence, "finalizing")
    assert await lines_of(offline, one.id, ok=True) == ["line 1"]


@guard("offline_move", "if ARGV[6] == '1' then", "if false then")
async def test_at_its_end_it_leaves_what_it_needed(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1)])
    await offline.move(one, fence, "expired")
    assert await lines_of(offline, one.id, ok=True) == []
    assert await offline.open_ids() == []
    assert await offline.store.redis.ttl(offline.keys.batch(one.id)) <= KEPT_S
    assert (await offline.page(ANN))[0][0].status == "expired"


# --- offline_settle


@guard("offline_settle", "v[2] ~= ARGV[3] or ", "")
async def test_who_runs_it_no_more_settles_nothing(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await lapse(offline, one)
    await offline.hold(one.id, "next", LEASE_S)
    with pytest.raises(Superseded):
        await offline.settle(one.id, fence, [result(1)])


@guard("offline_settle", " or (v[1] ~= 'in_progress' and v[1] ~= 'cancelling')", "")
async def test_lines_that_come_too_late_are_not_settled(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.move(one, fence, "finalizing")
    with pytest.raises(Superseded):
        await offline.settle(one.id, fence, [result(1)])


@guard("offline_settle", " and v[1] ~= 'cancelling'", "")
async def test_lines_are_settled_while_it_is_cancelled(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.cancel(one)
    assert await offline.settle(one.id, fence, [result(1)]) == 1


@guard("offline_settle", " and call('GETBIT', done, tonumber(number) - 1) == 0", "")
async def test_a_line_counts_once(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    for _ in range(2):
        await offline.settle(one.id, fence, [result(1)])
    assert await lines_of(offline, one.id, ok=True) == ["line 1"]


@guard("offline_settle", "not seen[number] and ", "")
async def test_a_line_counts_once_in_one_go(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    assert await offline.settle(one.id, fence, [result(1), result(1)]) == 1


@guard("offline_settle", "tonumber(ARGV[4]) > 0 and ", "")
async def test_what_is_on_disk_takes_no_room_here(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    with patch.object(offline_module, "STORE_BYTES", 0):
        assert await offline.settle(one.id, fence, [result(1)]) == 1


@guard("offline_settle", " and not take(id, bytes, now + WORK_S * 1000000, tonumber(ARGV[4]))", " and false")
async def test_without_room_nothing_is_settled(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    with patch.object(offline_module, "STORE_BYTES", 5), pytest.raises(NoRoom):
        await offline.settle(one.id, fence, [result(1)])
    assert undone(await offline.done(one.id), 1) == [1]


@guard("offline_settle", "if ARGV[i + 2] ~= '' then", "if true then")
async def test_what_was_never_done_counts_as_neither(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1, ok=False, counts=False)])
    assert b"" not in await offline.store.redis.hgetall(offline.keys.batch(one.id))


@guard("offline_settle", "if tokens > 0 then", "if false then")
async def test_tokens_are_added_up(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1), result(2)])
    assert (await again(offline, one.id)).usage == LineUsage(2, 0, 4, 0)


# --- where memory is full


@guard("offline_hold", "core press", "core", servers_only=True)
async def test_who_runs_it_keeps_it_where_memory_is_full(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    async with full(lanes):
        assert await offline.renew(one.id, "runner", fence, LEASE_S)


@guard("offline_move", "core press", "core", servers_only=True)
async def test_it_ends_where_memory_is_full(lanes: Lanes) -> None:
    offline = house(lanes)
    one, fence = await running(offline)
    async with full(lanes):
        assert await offline.move(one, fence, "expired")

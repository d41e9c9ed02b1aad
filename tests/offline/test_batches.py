"""Offline batches: one status after another, one runner at a time, and seen by their owner alone."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from pathlib import Path

import pytest

from buffer import offline as offline_module
from buffer.access import Store
from buffer.file_folder import ENDED_S, WORK_S
from buffer.files import FileLost
from buffer.offline import BatchError, NoRoom, Offline, Superseded, UnknownFile
from buffer.offline_keys import READ_S
from buffer.offline_record import MOVES, OPEN, Status
from buffer.offline_work import pack_place
from tests.offline.kept import ANN, BOB, LEASE_S, again, batch, kept, lines_of, result, running, stream, upload

STATUSES: tuple[Status, ...] = (*MOVES, "completed", "failed", "expired", "cancelled")


async def test_a_new_batch_is_validated_first(offline: Offline) -> None:
    begun = await batch(offline, metadata={"a": "b"})
    assert (begun.status, begun.total, begun.model, begun.kept.metadata) == ("validating", 0, None, {"a": "b"})
    assert await offline.read(begun.id, ANN) == begun
    assert await offline.open_ids() == [begun.id]
    assert await offline.page(ANN) == ([begun], False)


async def test_only_its_owner_sees_a_batch(offline: Offline) -> None:
    begun = await batch(offline)
    assert await offline.read(begun.id, BOB) is None
    assert await offline.page(BOB) == ([], False)
    assert await offline.read("batch_unknown", ANN) is None


async def test_lists_are_newest_first_and_paged(offline: Offline) -> None:
    record = await upload(offline.files)
    begun = [await batch(offline, record) for _ in range(5)]
    assert await offline.open_ids() == [one.id for one in begun]
    found, more = await offline.page(ANN, limit=2)
    assert (found, more) == ([begun[4], begun[3]], True)
    assert await offline.page(ANN, limit=3, after=found[-1].id) == (begun[2::-1], False)


async def test_a_batch_of_an_unknown_file_is_none(offline: Offline) -> None:
    record = await upload(offline.files)
    await offline.files.delete(record)
    with pytest.raises(UnknownFile):
        await offline.create(kept(record))
    assert await offline.open_ids() == []


async def test_a_batch_is_created_once(offline: Offline) -> None:
    begun = kept(await upload(offline.files))
    await offline.create(begun)
    await offline.cancel(await again(offline, begun.id))
    await offline.create(begun)
    assert (await again(offline, begun.id)).status == "cancelling"


async def test_an_owner_has_so_many_at_a_time(offline: Offline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_module, "MOST_OPEN", 2)
    record = await upload(offline.files)
    first, second = [await batch(offline, record) for _ in range(2)]
    with pytest.raises(NoRoom) as refused:
        await offline.create(kept(record))
    assert refused.value.status == 429
    await batch(offline, await upload(offline.files, owner=BOB))
    await offline.store.redis.delete(offline.keys.batch(second.id))  # lost: it is counted no more
    await batch(offline, record)
    fence = await offline.hold(first.id, "runner", LEASE_S)
    assert fence is not None
    await offline.move(first, fence, "failed", errors=[])
    await batch(offline, record)


async def test_a_file_stays_that_a_batch_reads(offline: Offline) -> None:
    record = await upload(offline.files)
    redis, key = offline.store.redis, offline.files.keys.file(record.id)
    await redis.expire(key, 60)
    first, second = await batch(offline, record), await batch(offline, record)
    assert READ_S - 10 < await redis.ttl(key) <= READ_S
    for one in (first, second):
        assert await offline.files.delete(record) == "read"
        fence = await offline.hold(one.id, "runner", LEASE_S)
        assert fence is not None
        assert await offline.move(one, fence, "failed", errors=[BatchError("empty_file", "Nothing.")])
    assert await offline.files.delete(record) == "gone"


# --- its runner


async def test_one_runs_it_at_a_time(offline: Offline) -> None:
    begun = await batch(offline)
    fence = await offline.hold(begun.id, "a", LEASE_S)
    assert fence is not None
    assert await offline.hold(begun.id, "b", LEASE_S) is None
    assert await offline.renew(begun.id, "a", fence, LEASE_S)
    assert not await offline.renew(begun.id, "b", fence, LEASE_S)
    assert not await offline.renew(begun.id, "a", fence + 1, LEASE_S)
    assert await offline.renew(begun.id, "a", fence, 0)
    later = await offline.hold(begun.id, "b", LEASE_S)
    assert later is not None
    assert later > fence
    assert not await offline.renew(begun.id, "a", fence, LEASE_S)


async def test_a_hold_whose_answer_was_lost_is_the_same_one(offline: Offline) -> None:
    begun = await batch(offline)
    assert await offline.hold(begun.id, "a", LEASE_S) == await offline.hold(begun.id, "a", LEASE_S)


async def test_whose_lease_has_run_out_goes_on_until_another_begins(offline: Offline) -> None:
    begun, fence = await running(offline)
    assert await offline.renew(begun.id, "runner", fence, 0)
    assert await offline.settle(begun.id, fence, [result(1)]) == 1
    assert await offline.hold(begun.id, "other", LEASE_S)
    with pytest.raises(Superseded):
        await offline.settle(begun.id, fence, [result(2)])
    with pytest.raises(Superseded):
        await offline.move(begun, fence, "finalizing")
    assert (await again(offline, begun.id)).completed == 1


async def test_of_many_who_want_it_one_gets_it(offline: Offline) -> None:
    begun = await batch(offline)
    fences = await asyncio.gather(*(offline.hold(begun.id, f"runner {one}", LEASE_S) for one in range(20)))
    assert len([fence for fence in fences if fence]) == 1


async def test_what_has_ended_or_never_was_is_held_by_nobody(offline: Offline) -> None:
    begun = await batch(offline)
    fence = await offline.hold(begun.id, "a", LEASE_S)
    assert fence is not None
    await offline.move(begun, fence, "failed", errors=[])
    assert await offline.hold(begun.id, "a", LEASE_S) is None
    assert not await offline.renew(begun.id, "a", fence, LEASE_S)
    assert await offline.hold("batch_unknown", "a", LEASE_S) is None


# --- its status


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATUSES, STATUSES)))
def test_there_is_no_way_out_of_an_end_and_none_back(before: Status, after: Status) -> None:
    if after in MOVES.get(before, ()):
        assert before in OPEN
        assert after != "validating"
        assert before not in MOVES.get(after, ())


@pytest.mark.parametrize("way", [("finalizing", "completed"), ("expired",), ("failed",), ("cancelling", "cancelled")])
async def test_a_batch_goes_its_way(offline: Offline, way: tuple[Status, ...]) -> None:
    one, fence = await running(offline)
    for status in way:
        assert one.open
        assert await offline.move(one, 0 if status == "cancelling" else fence, status)
        assert not await offline.move(one, 0 if status == "cancelling" else fence, status)
        one = await again(offline, one.id)
        assert one.status == status
        assert getattr(one, f"{status}_at") >= one.kept.created_at
    assert not one.open
    assert await offline.open_ids() == []
    assert (one.total, one.model) == (10, "m")


@pytest.mark.parametrize("to", ["validating", "completed", "cancelled", "in_progress"])
async def test_a_step_that_is_none_is_refused(offline: Offline, to: Status) -> None:
    one, fence = await running(offline)
    with pytest.raises(ValueError, match="goes from in_progress"):
        await offline.move(one, fence, to)
    with pytest.raises(ValueError, match="goes from in_progress"):
        await offline.move(one, 0, "finalizing")


async def test_a_step_from_where_it_is_no_more_is_none(offline: Offline) -> None:
    one, fence = await running(offline)
    assert (await offline.cancel(one)).status == "cancelling"
    assert not await offline.move(one, fence, "finalizing", output_file_id="file-x")
    now = await again(offline, one.id)
    assert (now.status, now.output_file_id, now.finalizing_at) == ("cancelling", None, None)


async def test_cancelling_and_finalizing_at_once_one_of_them_wins(offline: Offline) -> None:
    for number in range(10):
        one, fence = await running(offline, holder=f"runner {number}")
        now, moved = await asyncio.gather(offline.cancel(one), offline.move(one, fence, "finalizing"))
        assert now.status == ("finalizing" if moved else "cancelling")
        assert (await again(offline, one.id)).status == now.status


async def test_cancelling_twice_is_cancelling_once(offline: Offline) -> None:
    one = await batch(offline)
    first = await offline.cancel(one)
    assert await offline.cancel(first) == first == await offline.cancel(one)
    assert first.cancelling_at is not None


async def test_what_has_ended_is_not_cancelled(offline: Offline) -> None:
    one, fence = await running(offline)
    await offline.move(one, fence, "expired")
    assert (await offline.cancel(one)).status == "expired"


async def test_errors_are_kept(offline: Offline) -> None:
    one = await batch(offline)
    fence = await offline.hold(one.id, "runner", LEASE_S)
    assert fence is not None
    errors = [BatchError("invalid_json_line", "No JSON.", None, 3), BatchError("empty_file", "Nothing.")]
    await offline.move(one, fence, "failed", errors=errors)
    failed = await again(offline, one.id)
    assert (failed.errors, failed.status, failed.total) == (errors, "failed", 0)


async def test_at_its_end_nothing_is_left_but_the_record(offline: Offline, folder: str | None, store: Store) -> None:
    one, fence = await running(offline)
    await offline.put_places(one.id, stream(pack_place(0, 3), pack_place(3, 3)))
    await offline.settle(one.id, fence, [result(1), result(2, ok=False)])
    await offline.move(one, fence, "finalizing")
    one = await again(offline, one.id)
    await offline.move(one, fence, "completed", output_file_id="file-out")
    names = {key.decode().removeprefix(offline.keys.base) for key in await store.redis.keys(f"{offline.keys.base}*")}
    owned = {key.partition(":")[0] for key in names if one.id in key}
    assert owned == {"batch"}
    ended = await again(offline, one.id)
    assert (ended.output_file_id, ended.error_file_id, ended.completed, ended.failed) == ("file-out", None, 1, 1)


async def test_what_an_ended_batch_needed_stays_on_disk_for_an_hour(offline: Offline, folder: str | None) -> None:
    """A Redis that comes back a second older does not know that it has ended."""
    if not folder:
        return
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1)])
    redis, key = offline.store.redis, offline.keys.batch(one.id)
    before = {name: await redis.dump(name) for name in (key, offline.keys.results(one.id, ok=True))}
    await offline.move(one, fence, "expired")
    await offline.files.sweep()
    for name, value in before.items():
        await redis.restore(name, 60_000, value, replace=True)
    assert await lines_of(offline, one.id, ok=True) == ["line 1"]

    work = Path(folder) / offline.store.prefix / "work" / one.id
    for age_s, status, stays in (
        (ENDED_S + 60, "in_progress", True),
        (ENDED_S - 60, "expired", True),
        (ENDED_S + 60, "expired", False),
    ):
        os.utime(work, (time.time() - age_s,) * 2)
        await redis.hset(key, "status", status)
        await offline.files.sweep()
        assert work.exists() is stays


@pytest.mark.parametrize(("age_s", "stays"), [(WORK_S - 60, True), (WORK_S + 60, False)])
async def test_what_a_batch_needed_that_is_lost_stays_for_days(
    offline: Offline, folder: str | None, age_s: float, stays: bool
) -> None:
    if not folder:
        return
    one, fence = await running(offline)
    await offline.settle(one.id, fence, [result(1)])
    await offline.store.redis.delete(offline.keys.batch(one.id))
    work = Path(folder) / offline.store.prefix / "work" / one.id
    os.utime(work, (time.time() - age_s,) * 2)
    await offline.files.sweep()
    assert work.exists() is stays


# --- where its lines are


async def test_places_are_kept_and_replaced(offline: Offline) -> None:
    one, _ = await running(offline)
    with pytest.raises(FileLost):
        await offline.places(one.id, 1, 10)
    for shift in (7, 0):
        await offline.put_places(one.id, stream(*(pack_place(shift + line * 2**32, line) for line in range(1000))))
    assert await offline.places(one.id, 1, 2) == [(0, 0), (2**32, 1)]
    assert await offline.places(one.id, 999, 10) == [(998 * 2**32, 998), (999 * 2**32, 999)]


async def test_no_id_leads_out_of_the_folder(offline: Offline, folder: str | None) -> None:
    if folder:
        with pytest.raises(ValueError, match="no id"):
            await offline.places("../../etc", 1, 1)


async def test_the_oldest_that_have_ended_make_room(offline: Offline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_module, "MOST_KNOWN", 3)
    record = await upload(offline.files)
    begun = [await batch(offline, record) for _ in range(3)]
    for one in begun[1:]:
        fence = await offline.hold(one.id, "runner", LEASE_S)
        assert fence is not None
        await offline.move(one, fence, "failed", errors=[])
    others = await batch(offline, await upload(offline.files, owner=BOB))
    for expected in (begun[2], begun[0]):
        newest = await batch(offline, record)
        found, _ = await offline.page(ANN)
        assert expected.id in {one.id for one in found}
        assert (len(found), found[0].id) == (3, newest.id)
    assert await offline.read(begun[1].id) is None
    assert await offline.read(begun[2].id) is None
    newest = await batch(offline, record)
    assert len((await offline.page(ANN))[0]) == 4, "those under way stay"
    assert [one.id for one in (await offline.page(BOB))[0]] == [others.id]

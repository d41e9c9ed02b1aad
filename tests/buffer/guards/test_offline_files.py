"""_room, offline_put, offline_file, offline_drop: files in the store, and how much of it they may take."""

from __future__ import annotations

import time
from unittest.mock import patch

import pytest

from buffer import file_writers, files
from buffer.file_record import CHUNK, FileLost, NoRoom
from buffer.files import FileRecord, Files
from buffer.lanes import Lanes
from buffer.offline import Offline
from buffer.offline_keys import DAY_S
from buffer.offline_lists import new_id
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.test_full import full
from tests.offline.kept import ANN, batch, content, stream, upload

DATA = b"x" * (CHUNK + 1)


def shelf(lanes: Lanes) -> Files:
    return Files(lanes.store, None)


async def taken(kept: Files) -> int:
    return int(await kept.store.redis.hget(kept.keys.room, "sum") or 0)


async def put(kept: Files, id: str, number: int, piece: bytes = b"piece", most: int = 100) -> int:
    found = await kept.store.script("offline_put", keys=[kept.keys.base], args=[0, id, piece, number, 60, most])
    return int(found)


@guard("_room", "if bytes then", "if false then")
async def test_what_goes_makes_room(lanes: Lanes) -> None:
    kept = shelf(lanes)
    await kept.delete(await upload(kept, DATA))
    assert await taken(kept) == 0


@guard("_room", "if tonumber(call('HGET', held, 'sum') or '0') + bytes > most then", "if false then")
async def test_no_more_is_kept_than_may_be(lanes: Lanes) -> None:
    kept = shelf(lanes)
    assert await put(kept, "file-a", 0, b"x" * 60) == 1
    assert await put(kept, "file-b", 0, b"x" * 60) == 0
    assert await put(kept, "file-b", 0, b"x" * 40) == 1


@guard("offline_put", "if not take(", "if take(")
async def test_a_piece_without_room_is_not_kept(lanes: Lanes) -> None:
    kept = shelf(lanes)
    assert await put(kept, "file-a", 0, b"x" * 101) == 0
    assert await kept.store.redis.llen(kept.keys.data("file-a")) == 0
    assert await put(kept, "file-a", 0, b"x" * 100) == 1
    assert await kept.store.redis.llen(kept.keys.data("file-a")) == 1


@guard("offline_put", "if there > number then", "if false then")
async def test_a_piece_that_comes_twice_is_kept_once(lanes: Lanes) -> None:
    kept = shelf(lanes)
    for _ in range(2):
        assert await put(kept, "file-a", 0) == 1
    assert await taken(kept) == len(b"piece")


@guard("offline_put", "if there < number then", "if false then")
async def test_a_piece_behind_a_gap_is_not_kept(lanes: Lanes) -> None:
    kept = shelf(lanes)
    assert await put(kept, "file-a", 1) == -1
    with pytest.raises(FileLost):
        await kept.at(_record("file-a", 5), 0, 5)


@guard("offline_file", "most > 0 and not call", "not call")
async def test_what_is_made_here_is_never_one_too_many(lanes: Lanes) -> None:
    await kept_with_most(shelf(lanes), "batch_output", ours=True)


@guard("offline_file", " and not call('ZSCORE', list, ARGV[2])", "")
async def test_a_file_told_of_twice_is_one(lanes: Lanes) -> None:
    kept = shelf(lanes)
    with patch.object(files, "MOST_FILES", 1):
        record = await upload(kept)
        assert await kept._register(record, most=1)


@guard("offline_file", " and call('ZCARD', list) >= most then\n  for", " then\n  for")
async def test_one_has_so_many_files_before_any_is_looked_for(lanes: Lanes) -> None:
    kept = shelf(lanes)
    with patch.object(files, "MOST_FILES", 2):
        first = await upload(kept)
        await kept.store.redis.delete(kept.keys.file(first.id))
        await upload(kept)
        assert await kept.store.redis.zcard(kept.keys.files(ANN)) == 2


@guard("offline_file", "if call('EXISTS', P .. 'file:' .. id) == 0 then", "if true then")
async def test_of_many_files_none_is_forgotten(lanes: Lanes) -> None:
    await kept_with_most(shelf(lanes), "batch")


@guard("offline_file", "if call('ZCARD', list) >= most then\n    return 0", "if false then\n    return 0")
async def test_one_too_many_is_refused(lanes: Lanes) -> None:
    await kept_with_most(shelf(lanes), "batch")


@guard("offline_file", "math.max(lifetime, ROOM_S)", "lifetime")
async def test_a_list_outlives_the_file_that_goes_first(lanes: Lanes) -> None:
    kept = shelf(lanes)
    record = await upload(kept)
    await kept._register(_record(new_id("file-"), 0, expires_in_s=60), most=0)
    assert await kept.store.redis.ttl(kept.keys.files(ANN)) > 29 * DAY_S
    assert (await kept.page(ANN))[0][-1] == record


@guard("offline_file", "if call('EXPIRE', P .. 'data:' .. ARGV[2], lifetime) == 1 then", "if true then")
async def test_of_a_file_elsewhere_no_room_is_noted(lanes: Lanes) -> None:
    kept = shelf(lanes)
    await upload(kept, b"")
    assert await kept.store.redis.zcard(f"{kept.keys.room}:ends") == 0


@guard("offline_drop", "if call('SCARD', P .. 'readers:' .. ARGV[2]) > 0 then", "if false then")
async def test_a_file_that_is_read_stays(lanes: Lanes) -> None:
    kept = shelf(lanes)
    record = await upload(kept)
    await batch(Offline(kept.store, kept), record)
    assert await kept.delete(record) == "read"
    assert await content(kept, record) == b"{}\n"


async def test_a_file_goes_where_memory_is_full(lanes: Lanes) -> None:
    kept = shelf(lanes)
    record = await upload(kept)
    async with full(lanes):
        assert await kept.delete(record) == "gone"


async def kept_with_most(kept: Files, purpose: str, *, ours: bool = False) -> None:
    """Two files where two are the most, and a third."""
    with patch.object(files, "MOST_FILES", 2), patch.object(file_writers, "STORE_BYTES", 10**9):
        for number in range(3):
            if number == 2 and not ours:
                with pytest.raises(NoRoom):
                    await kept.create(ANN, "in.jsonl", purpose, stream(b"x"), ours=ours)
            else:
                await kept.create(ANN, "in.jsonl", purpose, stream(b"x"), ours=ours)
        assert len((await kept.page(ANN))[0]) == (3 if ours else 2)


def _record(id: str, size: int, *, expires_in_s: int = 3600) -> FileRecord:
    now = int(time.time())
    return FileRecord(
        id=id,
        owner=ANN,
        filename="in.jsonl",
        purpose="batch",
        bytes=size,
        created_at=now,
        expires_at=now + expires_in_s,
        where="redis",
    )

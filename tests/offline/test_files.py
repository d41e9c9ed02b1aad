"""Files: kept as they came, seen by their owner alone, and gone when they are deleted or their time is over."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buffer import file_writers
from buffer import files as files_module
from buffer.file_folder import Draft, Folder
from buffer.files import CHUNK, About, FileLost, Files, NoRoom
from buffer.offline_keys import KEPT_S
from buffer.offline_lists import new_id
from tests.offline.kept import ANN, BOB, content, on_disk, stream, upload


async def test_a_file_is_there_as_it_came(files: Files, folder: str | None) -> None:
    data = bytes(range(256)) * 3000
    record = await files.create(ANN, "ümläut.jsonl", "batch", stream(data[:1], data[1:300_001], data[300_001:]))
    assert await content(files, record) == data
    assert (record.bytes, record.filename, record.purpose) == (len(data), "ümläut.jsonl", "batch")
    assert record.expires_at == record.created_at + KEPT_S
    assert await files.read(record.id, ANN) == record
    assert on_disk(folder) == ([f"content/{record.id}-{record.expires_at}"] if folder else [])


async def test_an_empty_file_is_one(files: Files) -> None:
    record = await upload(files, b"")
    assert record.bytes == 0
    assert await content(files, record) == b""
    assert await files.at(record, 0, 10) == b""


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 3 * CHUNK), max_size=5), st.data())
async def test_any_part_of_any_file_can_be_read(files: Files, sizes: list[int], more: st.DataObject) -> None:
    pieces = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    whole = b"".join(pieces)
    record = await files.create(ANN, "in.jsonl", "batch", stream(*pieces))
    offset = more.draw(st.integers(0, len(whole)))
    length = more.draw(st.integers(0, len(whole)))
    assert await files.at(record, offset, length) == whole[offset : offset + length]
    assert await content(files, record, offset) == whole[offset:]
    assert await files.delete(record) == "gone"


async def test_only_its_owner_sees_a_file(files: Files) -> None:
    record = await upload(files)
    assert await files.read(record.id, BOB) is None
    assert await files.page(BOB) == ([], False)
    assert await files.read(record.id) == record


@pytest.mark.parametrize("id", ["", "file-", "file-../../etc/passwd", "file-" + "0" * 32, "batch_" + "0" * 32, "*"])
async def test_an_unknown_id_is_nobodys(files: Files, id: str) -> None:
    assert await files.read(id, ANN) is None


async def test_lists_are_in_order_and_paged(files: Files) -> None:
    records = [await upload(files, owner=ANN) for _ in range(5)]
    await upload(files, owner=BOB)
    assert await files.page(ANN) == (records[::-1], False)
    assert await files.page(ANN, oldest_first=True) == (records, False)
    assert await files.page(ANN, limit=2) == ([records[4], records[3]], True)
    assert await files.page(ANN, limit=2, after=records[3].id) == ([records[2], records[1]], True)
    assert await files.page(ANN, limit=2, after=records[1].id) == ([records[0]], False)
    assert await files.page(ANN, limit=5) == (records[::-1], False)
    assert await files.page(ANN, purpose="batch_output") == ([], False)
    assert await files.page(ANN, after=records[2].id, oldest_first=True) == (records[3:], False)


async def test_a_list_goes_on_behind_a_file_that_is_gone(files: Files) -> None:
    records = [await upload(files) for _ in range(4)]
    await files.delete(records[2])
    assert await files.page(ANN, after=records[2].id) == ([records[1], records[0]], False)


async def test_a_long_list_is_walked_through(files: Files) -> None:
    count = 230
    ids = [(await upload(files, b"")).id for _ in range(count)]
    await files.store.redis.delete(*(files.keys.file(id) for id in ids[50:200]))
    found, more = await files.page(ANN)
    assert ([one.id for one in found], more) == ([*ids[200:][::-1], *ids[:50][::-1]], False)
    assert await files.store.redis.zcard(files.keys.files(ANN)) == count - 150


async def test_a_deleted_file_leaves_nothing(files: Files, folder: str | None) -> None:
    record = await upload(files)
    assert await files.delete(record) == "gone"
    assert await files.delete(record) == "unknown"
    assert await files.read(record.id, ANN) is None
    assert on_disk(folder) == []
    assert await _room(files) == 0
    with pytest.raises(FileLost):
        await content(files, record)


async def test_ids_are_in_the_order_of_time() -> None:
    ids = [new_id("file-") for _ in range(1000)]
    assert [one[:19] for one in ids] == sorted(one[:19] for one in ids)
    assert len(set(ids)) == 1000


async def test_a_file_that_has_expired_is_nobodys_but_for_whoever_reads_it(files: Files) -> None:
    record = await upload(files, expires_at=int(time.time()) - 1)
    await files.store.redis.expire(files.keys.file(record.id), 60)
    assert await files.read(record.id, ANN) is None
    assert await files.page(ANN) == ([], False)
    assert await files.read(record.id) == record


async def test_what_has_expired_is_swept_from_disk(files: Files, folder: str | None) -> None:
    gone, read, stays = [await upload(files, expires_at=int(time.time()) + seconds) for seconds in (-1, -1, 3600)]
    await files.store.redis.delete(files.keys.file(gone.id))
    for key in (files.keys.file(read.id), files.keys.data(read.id)):
        await files.store.redis.expire(key, 60)
    assert await files.sweep() == (1 if folder else 0)
    assert await content(files, stays) == b"{}\n"
    assert await content(files, read) == b"{}\n"
    assert await files.sweep() == 0
    assert len(list(on_disk(folder))) == (2 if folder else 0)


async def test_a_broken_upload_leaves_nothing(files: Files, folder: str | None) -> None:
    async def breaks() -> AsyncIterator[bytes]:
        yield b"x" * CHUNK * 2
        raise OSError("the client has left")

    with pytest.raises(OSError, match="left"):
        await files.create(ANN, "in.jsonl", "batch", breaks())
    assert on_disk(folder) == []
    assert await files.page(ANN) == ([], False)
    assert await _room(files) == 0


async def test_an_upload_that_is_cancelled_leaves_nothing(files: Files, folder: str | None) -> None:
    stuck = asyncio.Event()

    async def hangs() -> AsyncIterator[bytes]:
        yield b"x" * CHUNK * 2
        stuck.set()
        await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        upload = group.create_task(files.create(ANN, "in.jsonl", "batch", hangs()))
        await stuck.wait()
        upload.cancel()
    assert on_disk(folder) == []
    assert await _room(files) == 0


async def test_what_is_said_behind_a_file_may_be_wrong(files: Files, folder: str | None) -> None:
    def about() -> About:
        raise ValueError("no purpose")

    with pytest.raises(ValueError, match="no purpose"):
        await files.receive(ANN, stream(b"x" * CHUNK), about)
    assert on_disk(folder) == []
    assert await _room(files) == 0


async def test_a_file_too_large_is_refused(files: Files, folder: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "FILE_BYTES", 3 * CHUNK)
    monkeypatch.setattr(file_writers, "STORE_FILE_BYTES", 2 * CHUNK)
    most = 3 if folder else 2
    record = await upload(files, b"x" * most * CHUNK)
    with pytest.raises(NoRoom) as refused:
        await upload(files, b"x" * (most * CHUNK + 1))
    assert refused.value.status == 413
    assert ("DOUBLEBUFFER_FILES" in str(refused.value)) == (folder is None)
    assert await files.page(ANN) == ([record], False)


async def test_redis_keeps_so_much_and_no_more(
    files: Files, folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writers, "STORE_BYTES", 3 * CHUNK)
    first = await upload(files, b"x" * 2 * CHUNK)
    if folder:
        await upload(files, b"x" * 2 * CHUNK)
        return
    with pytest.raises(NoRoom, match="DOUBLEBUFFER_FILES") as refused:
        await upload(files, b"x" * 2 * CHUNK)
    assert refused.value.status == 503
    assert await _room(files) == 2 * CHUNK
    await files.delete(first)
    await upload(files, b"x" * 3 * CHUNK)


async def test_room_of_what_has_expired_is_free(
    files: Files, folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder:
        return
    monkeypatch.setattr(file_writers, "STORE_BYTES", 3 * CHUNK)
    await upload(files, b"x" * 2 * CHUNK)
    ends = f"{files.keys.room}:ends"
    await files.store.redis.zadd(ends, {(await files.page(ANN))[0][0].id: 1})
    await upload(files, b"x" * 2 * CHUNK)
    assert await _room(files) == 2 * CHUNK


async def test_an_owner_has_so_many_files(files: Files, folder: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MOST_FILES", 2)
    first, second = [await upload(files) for _ in range(2)]
    with pytest.raises(NoRoom) as refused:
        await upload(files)
    assert refused.value.status == 429
    assert len(list(on_disk(folder))) == (2 if folder else 0)
    await upload(files, owner=BOB)
    await files.store.redis.delete(files.keys.file(first.id))  # it has expired
    third = await upload(files)
    assert (await files.page(ANN))[0] == [third, second]


async def test_a_file_of_ours_may_be_written_again(files: Files, folder: str | None) -> None:
    id = new_id("file-")
    for text in (b"first try", b"second"):
        record = await files.create(ANN, "out.jsonl", "batch_output", stream(text * 50_000), id=id, ours=True)
        assert await content(files, record) == text * 50_000
    assert await _room(files) == (0 if folder else 6 * 50_000)
    assert (await files.page(ANN))[0] == [record]


async def test_a_disk_that_fails_is_told_of(files: Files, folder: str | None) -> None:
    if not folder:
        return
    broken = Files(files.store, f"{__file__}/below-a-file")
    with pytest.raises(NoRoom, match="folder for files") as refused:
        await upload(broken)
    assert refused.value.status == 507
    with pytest.raises(NoRoom):
        await broken.sweep()


async def test_a_folder_that_hangs_holds_up_nothing_else(
    files: Files, folder: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a server that is away does."""
    comes_back = threading.Event()

    def hangs(folder: Folder) -> Draft:
        comes_back.wait()
        return draft(folder)

    draft = Folder.draft
    monkeypatch.setattr(Folder, "draft", hangs)
    uploads = [asyncio.create_task(upload(files)) for _ in range(40)]
    try:
        async with asyncio.timeout(10):
            # Large chats, names of servers and metrics are looked at beside the loop.
            await asyncio.gather(*(asyncio.to_thread(time.time) for _ in range(40)))
    finally:
        comes_back.set()
    assert len({record.id for record in await asyncio.gather(*uploads)}) == len(uploads)


def test_a_process_that_was_forked_gets_to_the_disk_too() -> None:
    """As the work-horses of a batch worker are, which swept before."""
    forked = """
import asyncio, os, signal
from buffer.file_writers import on_disk
asyncio.run(on_disk(int))
if (child := os.fork()) == 0:
    signal.alarm(10)
    asyncio.run(on_disk(int))
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", forked], check=False).returncode == 7


async def test_content_that_is_gone_is_told_of(files: Files, folder: str | None) -> None:
    record = await upload(files, b"x" * 2 * CHUNK)
    if folder:
        files_on_disk = Files(files.store, None)
        with pytest.raises(FileLost):
            await content(files_on_disk, record)
        assert files.folder is not None
        files.folder.remove(record.id, record.expires_at)
    else:
        await files.store.redis.rpop(files.keys.data(record.id))
    with pytest.raises(FileLost):
        await content(files, record)


async def _room(files: Files) -> int:
    return int(await files.store.redis.hget(files.keys.room, "sum") or 0)

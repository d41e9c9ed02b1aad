"""``/v1/files`` on a real server, by the official client and by ones that behave oddly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from buffer import file_writers
from buffer import files as files_module
from buffer.file_record import CHUNK
from buffer.setting_values import ApiKey
from buffer.store import StoreUnavailable
from gateway import receiving
from tests.gateway.rig import Rig, rig
from tests.offline.kept import on_disk
from tests.offline.test_files_forms import PURPOSE, TYPE, form, part

KEYS = [ApiKey(name="ann", key="a" * 20), ApiKey(name="bob", key="b" * 20)]
DATA = b'{"custom_id": "1"}\n'


@pytest.fixture(params=["folder", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return str(tmp_path / "files") if request.param == "folder" else None


def client(r: Rig, key: str = "a") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{r.url}/v1", api_key=key * 20, max_retries=0)


@asynccontextmanager
async def house(folder: str | None, **more: Any) -> AsyncIterator[Rig]:
    async with rig(show=False, files=folder, **more) as r:
        yield r


async def left(r: Rig) -> list[bytes]:
    """Keys of files in the store."""
    return sorted(await r.store.redis.keys(f"{r.store.prefix}:offline:*"))


async def test_the_official_client_keeps_lists_reads_and_deletes_files(folder: str | None) -> None:
    async with house(folder, api_keys=KEYS) as r, client(r) as ann, client(r, "b") as bob:
        data = DATA * 40_000
        file = await ann.files.create(file=("in.jsonl", data), purpose="batch")
        assert (file.filename, file.bytes, file.purpose, file.status) == ("in.jsonl", len(data), "batch", "processed")
        assert file.expires_at == file.created_at + 30 * 86_400
        assert await ann.files.retrieve(file.id) == file
        assert (await ann.files.content(file.id)).content == data
        after = {"anchor": "created_at", "seconds": 3600}
        other = await ann.files.create(file=("b.jsonl", b""), purpose="batch", expires_after=after)  # type: ignore[arg-type]
        assert other.expires_at == other.created_at + 3600
        assert [one.id async for one in ann.files.list(limit=1)] == [other.id, file.id]
        assert [one.id async for one in ann.files.list(order="asc", purpose="batch")] == [file.id, other.id]
        assert [one.id async for one in ann.files.list(purpose="batch_output")] == []

        assert [one.id async for one in bob.files.list()] == []
        for call in (bob.files.retrieve, bob.files.content, bob.files.delete):
            with pytest.raises(openai.NotFoundError, match="No such File object") as unknown:
                await call(file.id)
            assert unknown.value.body["param"] == "id"  # type: ignore[index]
        assert (await ann.files.delete(file.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await ann.files.delete(file.id)
        assert [one.id async for one in ann.files.list()] == [other.id]


def content_of(folder: str) -> Path:
    """Of the only file there."""
    (path,) = Path(folder).glob("*/content/*")
    return path


@pytest.mark.parametrize("id", ["file-x", "..%2f..%2fetc%2fpasswd", "file-" + "0" * 32, "%00", "x" * 3000])
async def test_an_id_that_is_none_is_404(id: str) -> None:
    async with house(None) as r:
        for path in (f"/v1/files/{id}", f"/v1/files/{id}/content"):
            assert (await r.client.get(path)).status_code == 404


async def test_a_file_may_come_before_what_is_said_of_it(folder: str | None) -> None:
    async with house(folder) as r:
        body = form(part("file", DATA, "in.jsonl"), PURPOSE)
        answer = await r.client.post("/v1/files", content=body, headers={"content-type": TYPE})
        assert (answer.status_code, answer.json()["bytes"]) == (200, len(DATA))


async def test_a_file_may_come_in_chunks_of_unknown_length(folder: str | None) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        body = form(PURPOSE, part("file", DATA * 10_000, "in.jsonl"))
        for at in range(0, len(body), 1000):
            yield body[at : at + 1000]

    async with house(folder) as r:
        answer = await r.client.post("/v1/files", content=pieces(), headers={"content-type": TYPE})
        content = await r.client.get(f"/v1/files/{answer.json()['id']}/content")
        assert content.content == DATA * 10_000
        assert content.headers["content-type"] == "application/octet-stream"
        assert content.headers["content-length"] == str(len(DATA) * 10_000)


@pytest.mark.parametrize(
    ("body", "kind", "param"),
    [
        (form(part("file", DATA, "in.jsonl")), TYPE, "purpose"),
        (form(PURPOSE), TYPE, "file"),
        (form(PURPOSE, part("file", DATA * 100_000, "in.csv")), TYPE, "file"),
        (form(part("purpose", b"vision"), part("file", DATA * 100_000, "in.jsonl")), TYPE, "purpose"),
        (form(PURPOSE, part("file", DATA, "in.jsonl"))[:-9], TYPE, None),
        (json.dumps({"purpose": "batch"}).encode(), "application/json", None),
        (b"", TYPE, None),
    ],
)
async def test_a_form_that_is_none_is_400_and_leaves_nothing(
    body: bytes, kind: str, param: str | None, folder: str | None
) -> None:
    async with house(folder) as r:
        answer = await r.client.post("/v1/files", content=body, headers={"content-type": kind})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param
        assert (await r.client.get("/v1/files")).json()["data"] == []
        assert on_disk(folder) == []
        assert all(key.endswith((b":room", b":room:ends")) for key in await left(r))


async def test_a_compressed_form_is_refused() -> None:
    async with house(None) as r:
        headers = {"content-type": TYPE, "content-encoding": "gzip"}
        assert (await r.client.post("/v1/files", content=b"x", headers=headers)).status_code == 415


async def test_a_file_too_large_is_413(folder: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "FILE_BYTES", 2 * CHUNK)
    monkeypatch.setattr(file_writers, "STORE_FILE_BYTES", CHUNK)
    async with house(folder, max_body_bytes=1000) as r, client(r) as ann:
        assert await ann.files.create(file=("in.jsonl", b"x" * CHUNK), purpose="batch")
        with pytest.raises(openai.APIStatusError) as refused:
            await ann.files.create(file=("in.jsonl", b"x" * 20 * CHUNK), purpose="batch")
        assert refused.value.status_code == 413
        assert len(list(on_disk(folder))) == (1 if folder else 0)


async def test_a_form_that_says_it_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_PATIENCE_S", 0.1)
    async with house(None) as r:
        reader, writer = await asyncio.open_connection("127.0.0.1", r.port)
        head = ["POST /v1/files HTTP/1.1", "Host: x", f"Content-Type: {TYPE}", f"Content-Length: {10**10}", "", ""]
        writer.write("\r\n".join(head).encode())
        async with asyncio.timeout(5):
            assert (await reader.readline()).split()[1] == b"413"
        writer.close()


async def test_a_full_store_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_writers, "STORE_BYTES", 100)
    async with house(None) as r, client(r) as ann:
        with pytest.raises(openai.InternalServerError, match="DOUBLEBUFFER_FILES") as refused:
            await ann.files.create(file=("in.jsonl", DATA * 10), purpose="batch")
        assert refused.value.status_code == 503


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(folder: str | None) -> None:
    async with house(folder) as r:
        body = form(PURPOSE, part("file", b"x" * 3 * CHUNK, "in.jsonl"))
        _, writer = await asyncio.open_connection("127.0.0.1", r.port)
        head = ["POST /v1/files HTTP/1.1", "Host: x", f"Content-Type: {TYPE}", f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(head).encode() + body[: 2 * CHUNK + 1000])
        await writer.drain()
        async with asyncio.timeout(5):
            while not (on_disk(folder) if folder else await r.store.redis.keys("*:data:*")):
                await asyncio.sleep(0.01)
            writer.close()
            while on_disk(folder) or await r.store.redis.keys("*:data:*"):
                await asyncio.sleep(0.01)


async def test_a_reader_that_leaves_is_no_error(folder: str | None) -> None:
    async with house(folder) as r, client(r) as ann:
        file = await ann.files.create(file=("in.jsonl", b"x" * 40 * CHUNK), purpose="batch")
        async with r.client.stream("GET", f"/v1/files/{file.id}/content") as answer:
            async for _ in answer.aiter_bytes(1000):
                break
        assert await ann.files.retrieve(file.id) == file


async def test_content_that_is_lost_is_500_or_a_broken_connection(folder: str | None) -> None:
    async with house(folder) as r, client(r) as ann:
        file = await ann.files.create(file=("in.jsonl", b"x" * 40 * CHUNK), purpose="batch")
        data = f"{r.store.prefix}:offline:{{all}}:data:{file.id}"
        if folder:
            path = content_of(folder)
            path.write_bytes(b"x" * CHUNK)
        else:
            await r.store.redis.ltrim(data, 0, 0)
        with pytest.raises(httpx.RemoteProtocolError):
            await r.client.get(f"/v1/files/{file.id}/content")
        if folder:
            path.unlink()
        else:
            await r.store.redis.delete(data)
        answer = await r.client.get(f"/v1/files/{file.id}/content")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "file_lost")


async def test_a_folder_that_cannot_be_written_to_is_507(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with house(str(tmp_path / "file")) as r, client(r) as ann:
        with pytest.raises(openai.InternalServerError, match="cannot be written to") as refused:
            await ann.files.create(file=("in.jsonl", DATA), purpose="batch")
        assert refused.value.status_code == 507


async def test_a_store_that_is_away_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(None) as r:

        async def away(*_: Any, **__: Any) -> list[Any]:
            raise StoreUnavailable("away")

        monkeypatch.setattr(r.store, "exchange", away)
        body = form(PURPOSE, part("file", DATA, "in.jsonl"))
        assert (await r.client.get("/v1/files")).status_code == 503
        answer = await r.client.post("/v1/files", content=body, headers={"content-type": TYPE})
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


async def test_wrong_pages_are_400() -> None:
    async with house(None) as r:
        for query in ("limit=0", "limit=10001", "limit=x", "order=up"):
            assert (await r.client.get(f"/v1/files?{query}")).status_code == 400
        assert (await r.client.get("/v1/files?limit=10000")).json() == {
            "object": "list",
            "data": [],
            "first_id": None,
            "last_id": None,
            "has_more": False,
        }

"""``/v1/batches`` on a real server, by the official client. Nobody runs the batches here but the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch

from buffer import offline as offline_module
from buffer.files import Files
from buffer.offline import BatchError, Offline
from buffer.offline_record import Status
from tests.gateway.rig import Rig, rig
from tests.offline.kept import LEASE_S, again, result
from tests.offline.test_files_routes import DATA, KEYS, client

CHATS = "/v1/chat/completions"


@pytest.fixture(params=["folder", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return str(tmp_path / "files") if request.param == "folder" else None


@asynccontextmanager
async def house(folder: str | None = None) -> AsyncIterator[tuple[Rig, Offline, openai.AsyncOpenAI]]:
    async with rig(show=False, files=folder, api_keys=KEYS) as r, client(r) as ann:
        yield r, Offline(r.store, Files(r.store, folder)), ann


async def begin(ann: openai.AsyncOpenAI, **more: Any) -> Batch:
    file = await ann.files.create(file=("in.jsonl", DATA), purpose="batch")
    return await ann.batches.create(input_file_id=file.id, endpoint=CHATS, completion_window="24h", **more)


async def test_a_batch_as_the_official_client_sees_it(folder: str | None) -> None:
    async with house(folder) as (_, offline, ann):
        begun = await begin(ann, metadata={"for": "test"})
        assert (begun.status, begun.endpoint, begun.completion_window) == ("validating", CHATS, "24h")
        assert begun.expires_at == begun.created_at + 86_400
        assert begun.metadata == {"for": "test"}
        assert begun.request_counts is not None
        assert (begun.request_counts.total, begun.errors, begun.output_file_id) == (0, None, None)
        assert await ann.batches.retrieve(begun.id) == begun

        fence = await offline.hold(begun.id, "test", LEASE_S)
        assert fence is not None
        await offline.move(await again(offline, begun.id), fence, "in_progress", total=3, model="m")
        await offline.settle(begun.id, fence, [result(1), result(2), result(3, ok=False)])
        one = await again(offline, begun.id)
        await offline.move(one, fence, "finalizing")
        pieces = offline.results(one.id, ok=True)
        await offline.files.create(
            one.kept.owner, "out.jsonl", "batch_output", pieces, id=one.kept.output_id, ours=True
        )
        assert (await ann.batches.retrieve(begun.id)).status == "finalizing"
        await offline.move(await again(offline, begun.id), fence, "completed", output_file_id=one.kept.output_id)

        ended = await ann.batches.retrieve(begun.id)
        assert (ended.status, ended.model, ended.error_file_id) == ("completed", "m", None)
        assert ended.request_counts is not None
        assert ended.request_counts.model_dump() == {"total": 3, "completed": 2, "failed": 1}
        assert ended.usage is not None
        assert (ended.usage.input_tokens, ended.usage.output_tokens, ended.usage.total_tokens) == (2, 4, 6)
        assert None not in (ended.in_progress_at, ended.finalizing_at, ended.completed_at)
        assert ended.output_file_id is not None
        assert (await ann.files.content(ended.output_file_id)).text == "line 1\nline 2\n"
        assert [file.purpose async for file in ann.files.list()] == ["batch_output", "batch"]


async def test_problems_of_the_file_are_told() -> None:
    async with house() as (_, offline, ann):
        begun = await begin(ann)
        fence = await offline.hold(begun.id, "test", LEASE_S)
        assert fence is not None
        errors = [BatchError("url_mismatch", "Wrong.", "url", 3)]
        await offline.move(await again(offline, begun.id), fence, "failed", errors=errors)
        failed = await ann.batches.retrieve(begun.id)
        assert failed.status == "failed"
        assert failed.failed_at
        assert failed.errors is not None
        assert failed.errors.data is not None
        told = failed.errors.data[0]
        assert (told.code, told.message, told.param, told.line) == ("url_mismatch", "Wrong.", "url", 3)


async def test_lists_are_paged() -> None:
    async with house() as (_, _, ann):
        begun = [(await begin(ann)).id for _ in range(5)]
        assert [one.id async for one in ann.batches.list(limit=2)] == begun[::-1]
        page = await ann.batches.list(limit=2)
        assert ([one.id for one in page.data], page.has_more) == (begun[:2:-1], True)


async def test_cancelling() -> None:
    async with house() as (_, offline, ann):
        begun = await begin(ann)
        with pytest.raises(openai.BadRequestError, match="reads this file"):
            await ann.files.delete(begun.input_file_id)
        first = await ann.batches.cancel(begun.id)
        assert (first.status, first.cancelling_at is not None) == ("cancelling", True)
        assert await ann.batches.cancel(begun.id) == first
        fence = await offline.hold(begun.id, "test", LEASE_S)
        assert fence is not None
        await offline.move(await again(offline, begun.id), fence, "cancelled")
        assert (await ann.batches.cancel(begun.id)).status == "cancelled"
        assert (await ann.files.delete(begun.input_file_id)).deleted


@pytest.mark.parametrize("way", [("finalizing",), ("finalizing", "completed"), ("expired",), ("failed",)])
async def test_what_is_over_is_not_cancelled(way: tuple[Status, ...]) -> None:
    async with house() as (_, offline, ann):
        begun = await begin(ann)
        fence = await offline.hold(begun.id, "test", LEASE_S)
        assert fence is not None
        for status in ("in_progress", *way):
            assert await offline.move(await again(offline, begun.id), fence, status)
        with pytest.raises(openai.BadRequestError, match=f"status '{way[-1]}'"):
            await ann.batches.cancel(begun.id)


async def test_a_batch_is_its_owners_alone() -> None:
    async with house() as (r, _, ann), client(r, "b") as bob:
        begun = await begin(ann)
        assert [one.id async for one in bob.batches.list()] == []
        for call in (bob.batches.retrieve, bob.batches.cancel):
            with pytest.raises(openai.NotFoundError, match="No such Batch object"):
                await call(begun.id)
        with pytest.raises(openai.NotFoundError, match="No such File object"):
            await bob.batches.create(input_file_id=begun.input_file_id, endpoint=CHATS, completion_window="24h")
        assert (await ann.batches.retrieve(begun.id)).status == "validating"
        assert (await r.client.get("/v1/batches")).status_code == 401


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"endpoint": "/v1/responses"}, openai.BadRequestError),
        ({"completion_window": "7d"}, openai.BadRequestError),
        ({"metadata": {str(number): "" for number in range(17)}}, openai.BadRequestError),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, openai.BadRequestError),
        ({"input_file_id": "file-unknown"}, openai.NotFoundError),
    ],
)
async def test_a_wrong_batch_is_refused_at_once(wrong: dict[str, Any], error: type[openai.APIStatusError]) -> None:
    async with house() as (_, offline, ann):
        file = await ann.files.create(file=("in.jsonl", DATA), purpose="batch")
        right = {"input_file_id": file.id, "endpoint": CHATS, "completion_window": "24h"}
        with pytest.raises(error):
            await ann.batches.create(**(right | wrong))
        assert await offline.open_ids() == []


async def test_results_are_no_input() -> None:
    async with house() as (_, offline, ann):

        async def pieces() -> AsyncIterator[bytes]:
            yield DATA

        record = await offline.files.create("key:ann", "out.jsonl", "batch_output", pieces())
        with pytest.raises(openai.BadRequestError, match="purpose"):
            await ann.batches.create(input_file_id=record.id, endpoint=CHATS, completion_window="24h")


async def test_too_many_at_a_time_are_429(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_module, "MOST_OPEN", 1)
    async with house() as (_, _, ann):
        await begin(ann)
        with pytest.raises(openai.RateLimitError, match="under way"):
            await begin(ann)


async def test_a_large_body_is_413() -> None:
    async with house() as (r, _, _):
        headers = {"authorization": f"Bearer {'a' * 20}"}
        answer = await r.client.post("/v1/batches", content=b" " * 100_000, headers=headers)
        assert answer.status_code == 413

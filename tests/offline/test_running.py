"""Offline batches from their beginning to each of their ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from buffer.files import Files
from buffer.lanes import Lanes
from buffer.store import Store, open_store
from tests.offline import kept
from tests.offline.rig import CHATS, SLOTS, House, house, line, lines
from tests.rig.redis_server import RedisServer
from tests.rig.script import HOLD, Status


@pytest.fixture(params=["embedded", "redis"])
async def here(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    """In memory with files in it, and in Redis with files in a folder."""
    embedded = request.param == "embedded"
    server: RedisServer = request.getfixturevalue("redis_server")
    prefix = f"running-{time.time_ns()}"
    store: Store = await open_store(None if embedded else server.url, prefix=prefix)
    async with house(store, Files(store, None if embedded else str(tmp_path)), lease_s=1.0) as found:
        yield found
    await store.aclose()


async def no_job_is_left(here: House) -> None:
    lanes = Lanes(here.store)
    async with asyncio.timeout(10):
        while (await lanes.load("e")).jobs or any(depth.waiting for depth in (await lanes.depths()).values()):
            await asyncio.sleep(0.02)


async def test_each_line_is_answered_once_and_few_are_in_the_lanes(here: House) -> None:
    wrong = line("wrong", temperature="hot")
    batch = await here.begin([*lines(40), wrong])
    most, keys = 0, Lanes(here.store).keys
    wait, load = ("ZCARD", keys.wait("m-oai", "background")), ("HLEN", keys.load("e"))
    while (batch := await kept.again(here.offline, batch.id)).open:
        most = max(most, sum(await here.store.exchange([wait, load])))
        await asyncio.sleep(0.005)
    assert (batch.status, batch.total, batch.completed, batch.failed) == ("completed", 41, 40, 1)
    assert 0 < most <= 2 * SLOTS
    answers, errors = await here.told(batch)
    assert list(errors) == ["wrong"]
    assert errors["wrong"]["response"]["status_code"] == 400
    assert "temperature" in errors["wrong"]["response"]["body"]["error"]["message"]
    assert {id: one["response"]["body"]["choices"][0]["message"]["content"] for id, one in answers.items()} == {
        f"id-{number}": f"id-{number} 1" for number in range(40)
    }
    assert batch.usage.output == sum(one["response"]["body"]["usage"]["completion_tokens"] for one in answers.values())
    assert len(here.engine.requests) == 40
    counted = here.telemetry.requests
    assert counted.labels("batch", "background", "ok")._value.get() == 40
    assert counted.labels("batch", "background", "client_error")._value.get() == 1
    await no_job_is_left(here)


async def test_a_file_with_a_fault_begins_nothing(here: House) -> None:
    batch = await here.begin([*lines(3), line("id-1"), "what?\n"])
    batch = await here.at(batch.id, "failed")
    assert [(error.code, error.line) for error in batch.errors or []] == [
        ("duplicate_custom_id", 4),
        ("invalid_json_line", 5),
    ]
    assert (here.engine.requests, batch.output_file_id, batch.error_file_id) == ([], None, None)


async def test_what_was_answered_before_a_cancel_is_kept(here: House) -> None:
    batch = await here.begin([*lines(4), *lines(6, "words:9", name="late")])
    engine = here.engine.engine
    here.engine.script = lambda request: (
        [HOLD] if b"late" in request.body else engine.script(request.body, request.path)
    )
    batch = await here.at(batch.id, "in_progress", done=4)
    assert (await here.offline.cancel(batch)).status == "cancelling"
    batch = await here.at(batch.id, "cancelled")
    answers, errors = await here.told(batch)
    assert sorted(answers) == [f"id-{number}" for number in range(4)]
    assert {one["error"]["code"] for one in errors.values()} == {"batch_cancelled"}
    assert (len(errors), batch.completed, batch.failed) == (6, 4, 0)
    await no_job_is_left(here)


async def test_one_whose_time_is_over_expires(here: House) -> None:
    here.engine.script = [HOLD]
    batch = await here.begin(lines(5), expires_at=int(time.time()) + 2)
    batch = await here.at(batch.id, "expired")
    answers, errors = await here.told(batch)
    assert answers == {}
    assert sorted(errors) == [f"id-{number}" for number in range(5)]
    assert {one["error"]["code"] for one in errors.values()} == {"batch_expired"}
    assert all(one["response"] is None for one in errors.values())
    await no_job_is_left(here)


async def test_what_may_pass_is_tried_again_and_what_will_not_is_not(here: House) -> None:
    here.engine.once += [[Status(503, {"error": {"message": "busy"}})], [Status(500, {"error": {"message": "no"}})]]
    batch = await here.begin([*lines(3), line("none", model="unheard-of")])
    assert (await here.at(batch.id, "failed")).errors is not None  # of two models
    batch = await here.at((await here.begin(lines(3))).id, "completed")
    assert (batch.completed, batch.failed) == (3, 0)
    here.engine.script = [Status(422, {"error": {"message": "not so"}})]
    before = len(here.engine.requests)
    batch = await here.at((await here.begin([line("a")])).id, "completed")
    _, errors = await here.told(batch)
    assert (batch.failed, errors["a"]["response"]["status_code"], batch.output_file_id) == (1, 422, None)
    assert len(here.engine.requests) == before + 1


async def test_a_small_one_does_not_wait_for_the_end_of_a_large_one(here: House) -> None:
    here.engine.engine.delay_s = 0.01
    large = await here.begin(lines(300, name="large"))
    await here.at(large.id, "in_progress", done=5)
    small = await here.begin(lines(5, name="small"), owner=kept.BOB, user=kept.BOB)
    await here.at(small.id, "completed")
    large = await kept.again(here.offline, large.id)
    assert large.status == "in_progress"
    await here.offline.cancel(large)
    large = await here.at(large.id, "cancelled")
    answers, errors = await here.told(large)
    assert (len(answers), len(errors)) == (large.completed, 300 - large.completed)


async def test_one_whose_runner_fell_silent_goes_on(here: House) -> None:
    record = await kept.upload(here.files, "".join(lines(6)).encode())
    begun = kept.kept(record)
    await here.offline.create(begun)
    begun_at = time.monotonic()
    if await here.offline.hold(begun.id, "silent", 1.5) is not None:
        await here.at(begun.id, "completed")
        assert time.monotonic() - begun_at > 1.5
    batch = await here.at(begun.id, "completed")
    assert batch.completed == 6


async def test_whoever_is_superseded_writes_nothing_more(here: House) -> None:
    here.engine.script = [HOLD]
    batch = await here.begin(lines(6))
    await here.engine.received(1)
    # As after a Redis that went back in time: another has it, under a fence of its own.
    await here.store.redis.hset(here.offline.keys.batch(batch.id), mapping={"holder": "x", "fence": 2**52, "until": 0})
    await here.engine.received(SLOTS)
    here.engine.script = None
    batch = await here.at(batch.id, "completed")
    answers, _ = await here.told(batch)
    assert (batch.completed, len(answers), batch.fence > 2**52) == (6, 6, True)


async def test_embeddings_go_their_own_way(here: House) -> None:
    url = "/v1/embeddings"
    asked = [line(f"id-{number}", input=[f"text {number}"]).replace(CHATS, url) for number in range(9)]
    batch = await here.at((await here.begin(asked, endpoint=url)).id, "completed")
    answers, _ = await here.told(batch)
    assert (batch.completed, batch.usage.output) == (9, 0)
    assert all(len(one["response"]["body"]["data"]) == 1 for one in answers.values())

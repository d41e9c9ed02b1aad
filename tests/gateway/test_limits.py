"""What one key, one user, or one request too many is told, and that it is true."""

from __future__ import annotations

import asyncio
import gzip
import json
import time

import httpx
import pytest

from buffer.access import StoreUnavailable
from buffer.setting_values import ApiKey
from gateway import body
from gateway.auth import Holder
from gateway.quotas import Quotas
from gateway.refusal import Refusal
from gateway.room import Held, Room
from tests.gateway.rig import Rig, Wire, ollama, rig

ANN = {"Authorization": "Bearer k-ann"}
BOB = {"Authorization": "Bearer k-bob"}


def keys(**ann: float) -> list[ApiKey]:
    return [ApiKey(name="ann", key="k-ann", **ann), ApiKey(name="bob", key="k-bob")]  # type: ignore[arg-type]


async def ask(r: Rig, path: str = "/api/chat", model: str = "nobody", headers: dict[str, str] = ANN) -> httpx.Response:
    return await r.client.post(path, json=ollama(model), headers=headers)


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/v1/messages", "/api/embed", "/api/show"])
async def test_a_key_over_its_rate_is_told_when_to_come_back(path: str) -> None:
    async with rig(api_keys=keys(requests_per_minute=2)) as r:
        for _ in range(2):
            assert (await ask(r, path)).status_code in (400, 404)
        got = await ask(r, path)
        assert got.status_code == 429
        assert 55 <= int(got.headers["retry-after"]) <= 60
        told = got.json()["error"]
        assert f"{got.headers['retry-after']} s" in (told if isinstance(told, str) else told["message"])
        # Whoever looks is not counted, nor is another key.
        assert (await r.client.get("/api/tags", headers=ANN)).status_code == 200
        assert (await ask(r, path, headers=BOB)).status_code in (400, 404)


async def test_what_it_was_told_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.quotas._MINUTE_US", 1_500_000)
    async with rig(api_keys=keys(requests_per_minute=1)) as r:
        assert (await ask(r)).status_code == 404
        refused = await ask(r)
        told_s = int(refused.headers["retry-after"])
        assert (refused.status_code, told_s) == (429, 2)
        await asyncio.sleep(told_s)
        assert (await ask(r)).status_code == 404
        assert (await ask(r)).status_code == 429


async def test_a_key_without_a_rate_costs_no_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig(api_keys=keys(requests_per_minute=9)) as r:
        asked: list[str] = []
        script = r.store.script

        async def counted(name: str, **more: object) -> object:
            asked.append(name)
            return await script(name, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(r.store, "script", counted)
        await ask(r, headers=BOB)
        await ask(r, headers={})
        assert "quota" not in asked
        await ask(r)
        assert asked.count("quota") == 1


async def test_a_refused_request_is_counted_as_such() -> None:
    async with rig(api_keys=keys(requests_per_minute=1)) as r:
        await ask(r)
        await ask(r)
        assert r.metric('requests_total{api="ollama",lane="none",outcome="refused"}') == 1


async def test_who_has_most_of_a_full_queue_gets_429_and_others_503() -> None:
    async with rig(queue_limit=4, api_keys=keys()) as r, asyncio.TaskGroup() as group:
        waiting = [group.create_task(ask(r, model="llama3.2:1b")) for _ in range(3)]
        waiting.append(group.create_task(ask(r, model="llama3.2:1b", headers=BOB)))
        await r.waiting(4)
        mine = await ask(r, model="llama3.2:1b")
        others = await ask(r, model="llama3.2:1b", headers=BOB)
        assert (mine.status_code, others.status_code) == (429, 503)
        assert int(mine.headers["retry-after"]) >= 1
        assert int(others.headers["retry-after"]) >= 1
        assert "3 of those that wait are yours" in mine.json()["error"]
        for _ in waiting:
            await r.hands.answer("x")


async def test_a_share_and_an_owner_come_with_each_job() -> None:
    async with rig(api_keys=keys(share=0.25)) as r, asyncio.TaskGroup() as group:
        for headers, owner, share in ((ANN, "key:ann", "250"), (BOB, "key:bob", "0")):
            sent = group.create_task(ask(r, model="llama3.2:1b", headers=headers))
            job = await r.hands.take()
            told = await r.store.redis.hmget(r.lanes.keys.job(job.id), "owner", "share")
            # A record leaves out what is 0.
            assert [(value or b"0").decode() for value in told] == [owner, share]
            r.hands.say(job, "x")
            await r.hands.end(job)
            assert (await sent).status_code == 200


async def test_without_the_store_nobody_with_a_rate_comes_in() -> None:
    class Away:
        prefix = "x"

        async def script(self, *_: object, **__: object) -> int:
            raise StoreUnavailable

    refused = await Quotas(Away()).refuses(Holder("ann", False, frozenset(), requests_per_minute=5), "POST")  # type: ignore[arg-type]
    assert refused is not None
    assert (refused.status, refused.retry_after_s) == (503, 1)


# Bytes ---------------------------------------------------------------------------------------------------------------


def test_a_room_is_full_when_it_is_and_free_again_afterwards() -> None:
    room = Room(100)
    one, other = Held(room), Held(room)
    one.add(60)
    with pytest.raises(Refusal) as refused:
        other.add(41)
    assert refused.value.failure.status == 503
    other.add(40)
    one.let_go()
    other.add(60)
    other.let_go()
    other.let_go()
    assert room.taken == 0


async def test_bodies_have_a_bound_together() -> None:
    async with rig(max_body_bytes=6000, max_held_bytes=1) as r, asyncio.TaskGroup() as group:
        large = {"model": "llama3.2:1b", "messages": [{"role": "user", "content": "x" * 3000}], "stream": False}
        sent = group.create_task(r.client.post("/api/chat", json=large))
        job = await r.hands.take()
        packed = gzip.compress(json.dumps(large).encode())
        for got in (
            await r.client.post("/v1/chat/completions", json=large),
            await r.client.post("/api/chat", content=packed, headers={"Content-Encoding": "gzip"}),
        ):
            assert (got.status_code, got.headers["retry-after"]) == (503, "5")
        r.hands.say(job, "x")
        await r.hands.end(job)
        assert (await sent).status_code == 200
        sent = group.create_task(r.client.post("/api/chat", json=large))
        await r.hands.answer("y")
        assert (await sent).status_code == 200


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/api/embed", "/api/show", "/api/pull"])
async def test_a_body_that_comes_too_slowly_is_not_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "PATIENCE_S", 0.2)
    async with rig() as r:
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", r.port)
        writer.write(f'POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{"mod'.encode())
        wire = Wire(reader, writer)
        assert (await wire.until(b"\r\n")).split()[1] == b"408"
        assert time.perf_counter() - began < 5
        await wire.leave()

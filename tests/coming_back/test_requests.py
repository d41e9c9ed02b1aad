"""Requests by their ids: who may ask, what is told, what can be cancelled, and when it is over."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from buffer.job import End, Failure, Finish
from buffer.keys import DONE_JOB_S, DONE_REPLY_S
from buffer.records import Held
from buffer.settings import Settings
from gateway.delivery import Timing
from tests.coming_back.rig import DETACH, body, gates, leaves, reading, told, words
from tests.gateway.rig import Hands, until

CHAT = "/v1/chat/completions"
KEYS = {"one": "key-one-0123456789ab", "two": "key-two-0123456789ab"}


def keyed() -> dict[str, Any]:
    text = ",".join(f"{name}:{key}" for name, key in KEYS.items())
    return {"api_keys": Settings.model_validate({"api_keys": text}).api_keys}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS[name]}"}


async def test_only_whoever_made_it_may_ask() -> None:
    async with gates(None, **keyed()) as g:
        id = await leaves(g.one, CHAT, body(CHAT), **bearer("one"))
        mine = await g.two.client.get(f"/v1/requests/{id}", headers=bearer("one"))
        assert mine.json()["state"] == "waiting"
        unknown = await g.two.client.get(f"/v1/requests/{'0' * 32}", headers=bearer("two"))
        for method, path in (("GET", ""), ("GET", "/stream"), ("DELETE", "")):
            other = await g.two.client.request(method, f"/v1/requests/{id}{path}", headers=bearer("two"))
            assert (other.status_code, other.content) == (404, unknown.content), method
            assert (await g.two.client.request(method, f"/v1/requests/{id}{path}")).status_code == 401
        assert unknown.json()["error"]["message"].startswith("No request of yours")
        await g.waiting(1)


async def test_without_keys_it_is_the_address() -> None:
    async with gates(None, 1) as g:
        id = await leaves(g.one, CHAT, body(CHAT))
        transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx.AsyncClient(base_url=g.one.client.base_url, transport=transport) as elsewhere:
            assert (await elsewhere.get(f"/v1/requests/{id}")).status_code == 404
            assert (await elsewhere.delete(f"/v1/requests/{id}")).status_code == 404
        assert (await g.one.client.get(f"/v1/requests/{id}")).status_code == 200


@pytest.mark.parametrize("id", ["x", "0" * 32, "..", "%2e%2e", "*", "0" * 31 + "G", "a" * 4000])
async def test_ids_that_are_none(id: str) -> None:
    async with gates(None, 1) as g:
        got = await g.one.client.get(f"/v1/requests/{id}")
        assert got.status_code == 404
        assert got.json()["error"]["message"]


async def test_a_waiting_one_tells_its_place_and_when_it_will_probably_start() -> None:
    async with gates(None, 1) as g, asyncio.TaskGroup() as group:
        group.create_task(g.one.client.post(CHAT, json=body(CHAT)))
        await g.hands.answer("Hi")
        await until(lambda: _is(g.one.metric('requests_total{api="openai",lane="fast",outcome="ok"}') == 1))
        ids = [await leaves(g.one, CHAT, body(CHAT)) for _ in range(3)]
        told_of = [(await g.one.client.get(f"/v1/requests/{id}")).json() for id in ids]
        assert [one["queue_place"] for one in told_of] == [1, 2, 3]
        starts = [one["estimated_start"] for one in told_of]
        assert time.time() - 1 < starts[0] <= starts[1] <= starts[2] < time.time() + 60


async def _is(holds: bool) -> bool:
    return holds


async def test_one_that_did_not_ask_to_outlive_its_client_can_be_looked_at_too() -> None:
    async with gates(None) as g, asyncio.TaskGroup() as group:
        asked = group.create_task(g.one.client.post(CHAT, json=body(CHAT)))
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        async with reading(g.two, job.id) as reader:
            heard = [await reader.next(), await reader.next()]
            g.hands.say(job, "lo", Finish("stop"))
            await g.hands.end(job)
            heard += await reader.rest()
        assert words(CHAT, heard) == "Hello"
        assert "id:" not in (await asked).text
        assert (await g.state(job.id, state="done"))["detached"] is False


@pytest.mark.parametrize("det", [True, False])
async def test_how_long_an_answer_is_kept(det: bool, redis_url: str) -> None:
    """A detached one ten minutes, another a minute; after that it is unknown."""
    async with gates(redis_url) as g, asyncio.TaskGroup() as group:
        group.create_task(g.one.client.post(CHAT, json=body(CHAT), headers=DETACH if det else {}))
        job = await g.hands.answer("Hi")
        await g.state(job.id, state="done")
        reply = g.lanes.keys.reply(job.id)
        kept_s = await g.lanes.store.redis.ttl(reply)
        assert kept_s == pytest.approx(DONE_JOB_S if det else DONE_REPLY_S, abs=3)
        await g.lanes.store.redis.expire(reply, 0)
        for path in ("", "/stream"):
            gone = await g.two.client.get(f"/v1/requests/{job.id}{path}")
            assert gone.status_code == 404
            assert "kept for a minute" in gone.json()["error"]["message"]


async def test_no_prompt_is_kept_with_the_answer(redis_url: str) -> None:
    async with gates(redis_url, 1) as g:
        marker = "ZX-PROMPT-7731"
        for path in ("/v1/chat/completions", "/api/chat", "/v1/messages"):
            asked = body(path, messages=[{"role": "user", "content": marker}])
            id = await leaves(g.one, path, asked)
            await g.hands.answer("Hi")
            await g.state(id, state="done")
            record = await g.lanes.store.redis.hgetall(g.lanes.keys.job(id))
            entries = await g.lanes.store.redis.xrange(g.lanes.keys.reply(id))
            assert marker.encode() not in repr((record, entries)).encode()


async def test_a_waiting_one_can_be_cancelled_elsewhere() -> None:
    async with gates(None) as g, asyncio.TaskGroup() as group:
        asked = group.create_task(g.one.client.post(CHAT, json=body(CHAT, stream=False)))
        id = await _only_waiting(g.hands)
        done = await g.two.client.delete(f"/v1/requests/{id}")
        assert (done.status_code, done.json()["state"]) == (200, "cancelled")
        assert (await asked).status_code == 499
        await g.waiting(0)
        again = await g.two.client.delete(f"/v1/requests/{id}")
        assert (again.status_code, again.json()["state"]) == (200, "cancelled")
        assert again.json()["error"]


async def _only_waiting(hands: Hands) -> str:
    async def found() -> bool:
        return bool(await hands.store.redis.zcard(key))

    key = hands.lanes.keys.wait("qwen3-0.6b", "fast")
    await until(found)
    (id,) = await hands.store.redis.zrange(key, 0, -1)
    return str(id.decode())


@pytest.mark.parametrize("det", [True, False])
async def test_a_running_one_is_cancelled_by_its_worker(det: bool) -> None:
    async with gates(None) as g, asyncio.TaskGroup() as group:
        asked = group.create_task(g.one.client.post(CHAT, json=body(CHAT), headers=DETACH if det else {}))
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        async with reading(g.two, job.id) as reader:
            heard = [await reader.next(), await reader.next()]
            told_to = await g.two.client.delete(f"/v1/requests/{job.id}")
            assert (told_to.status_code, told_to.json()["state"]) == (202, "running")
            (renewed,) = await g.lanes.renew(g.hands.name, [Held(job.id, job.fence, g.hands.backend)], 30)
            assert renewed.status == "cancel"
            await g.hands.end(job, End("cancelled"))
            heard += await reader.rest()
        assert words(CHAT, heard) == "Hel"
        assert "error" in heard[-2].json()
        assert '"error"' in (await asked).text
        assert (await g.state(job.id, state="cancelled"))["timeline"]["ended"]


async def test_one_that_failed_tells_why() -> None:
    async with gates(None) as g:
        id = await leaves(g.one, "/api/chat", body("/api/chat"))
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        await g.hands.end(job, End("failed", Failure("The engine broke off.", 502)))
        assert (await g.state(id, state="failed"))["error"] == "The engine broke off."
        *before, last = await told(g.two, id)
        assert words("/api/chat", before) == "Hel"
        assert last.json() == {"error": "The engine broke off."}


@pytest.mark.parametrize("after", ["x", "1", "1-", "1-2-3", "-1", "1-2,1-2", "1-2.x", "9" * 30 + "-1"])
async def test_a_last_event_id_that_is_none(after: str) -> None:
    async with gates(None, 1) as g:
        id = await leaves(g.one, CHAT, body(CHAT))
        got = await g.one.client.get(f"/v1/requests/{id}/stream", headers={"Last-Event-ID": after})
        assert got.status_code == 400
        assert "Last-Event-ID" in got.text


async def test_a_last_event_id_of_another_answer() -> None:
    async with gates(None, 1) as g:
        id = await leaves(g.one, CHAT, body(CHAT))
        await g.hands.answer("Hi")
        await g.state(id, state="done")
        got = await g.one.client.get(f"/v1/requests/{id}/stream", headers={"Last-Event-ID": "1764510000000000-3"})
        assert got.status_code == 409
        assert "from its start" in got.text


async def test_a_stream_that_waits_keeps_its_connection() -> None:
    async with gates(None, 1, timing=Timing(heartbeat_s=0.05)) as g:
        id = await leaves(g.one, "/v1/messages", body("/v1/messages"))
        async with g.one.client.stream("GET", f"/v1/requests/{id}/stream") as response:
            async with asyncio.timeout(5):
                pieces = response.aiter_text()
                assert {await anext(pieces) for _ in range(3)} == {": keep-alive\n\n"}
        await g.state(id, state="waiting")


async def test_vectors_have_a_state_and_no_stream() -> None:
    async with gates(None, 1) as g, asyncio.TaskGroup() as group:
        asked = group.create_task(g.one.client.post("/api/embed", json={"model": "qwen3:0.6b", "input": "x"}))
        ids: list[bytes] = []

        async def there() -> bool:
            ids[:] = [k async for k in g.lanes.store.redis.scan_iter(match=f"{g.lanes.store.prefix}*job:*")]
            return bool(ids)

        await until(there)
        id = ids[0].decode().rpartition(":")[2]
        assert (await g.one.client.get(f"/v1/requests/{id}")).json()["state"] == "waiting"
        none = await g.one.client.get(f"/v1/requests/{id}/stream")
        assert none.status_code == 404
        assert "one piece" in none.text
        assert (await g.one.client.delete(f"/v1/requests/{id}")).json()["state"] == "cancelled"
        assert (await asked).status_code == 499


async def test_the_routes_are_documented() -> None:
    async with gates(None, 1) as g:
        paths = (await g.one.client.get("/openapi.json")).json()["paths"]
        assert set(paths["/v1/requests/{id}"]) == {"get", "delete"}
        stream = paths["/v1/requests/{id}/stream"]["get"]
        assert "text/event-stream" in stream["responses"]["200"]["content"]


async def test_one_that_the_store_has_lost_is_not_unknown_before_its_gateway_puts_it_back() -> None:
    async with gates(None, lease_seconds=3) as g:
        id = await leaves(g.one, CHAT, body(CHAT))
        await g.lanes.store.redis.flushall()
        found = await g.two.client.get(f"/v1/requests/{id}")
        assert (found.status_code, found.json()["state"]) == (200, "waiting")
        cancelled = await g.two.client.delete(f"/v1/requests/{id}")
        assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")


async def test_an_unknown_id_is_told_so_soon_after_the_store_was_emptied() -> None:
    async with gates(None, lease_seconds=3) as g:
        await g.lanes.store.redis.flushall()
        async with asyncio.timeout(5):
            found = await g.two.client.get(f"/v1/requests/{'0' * 32}")
        assert found.status_code == 404

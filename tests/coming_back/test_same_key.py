"""Requests with the same Idempotency-Key, over two gateways: one job, one answer, whoever leaves."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from buffer.job import End, Failure, Finish, Usage
from buffer.keys import CLAIMED_S, DONE_JOB_S
from tests.coming_back.rig import EVERYWHERE, Gates, body, gates
from tests.coming_back.same_key import KEY, claims, clients, post
from tests.coming_back.test_requests import CHAT, bearer, keyed
from tests.gateway.rig import PLAIN, until

CREATED = re.compile(r'"created(?:_at)?":(\d+)')


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str | None:
    return request.getfixturevalue("redis_url") if kind == "redis" else None


def plain(text: str) -> str:
    """A stream without its comments and instants."""
    return "\n\n".join(block for block in text.split("\n\n") if not block.startswith(":"))


@pytest.mark.parametrize(("path", "kind"), EVERYWHERE)
@pytest.mark.parametrize("stream", [True, False])
async def test_two_at_once_at_two_gateways_are_one_job(path: str, stream: bool, url: str | None) -> None:
    async with gates(url) as g:
        asked = [post(g.one, path, stream=stream), post(g.two, path, stream=stream)]
        await clients(g, 2)
        await g.waiting(1)
        await g.hands.answer("Hel", "lo", usage=Usage(7, 2))
        one, two = await asyncio.gather(*asked)
        assert one.status_code == two.status_code == 200
        assert one.headers["x-doublebuffer-id"] == two.headers["x-doublebuffer-id"] == g.hands.granted[0].id
        if path == CHAT:
            assert plain(one.text).replace(" ", "") == plain(two.text).replace(" ", "")
        assert "Hel" in one.text
        assert "Hel" in two.text
        again = await post(g.two, path, stream=stream)
        assert again.headers["x-doublebuffer-id"] == g.hands.granted[0].id
        assert again.status_code == 200
        await g.waiting(0)
        assert len(g.hands.granted) == 1


async def test_they_were_created_when_the_first_came() -> None:
    """And so is the answer that is told once more."""
    paths = (CHAT, "/v1/completions", "/v1/responses")
    asked = [(path, stream, f"key-{path}-{stream}") for path in paths for stream in (True, False)]
    async with gates(None) as g:
        both: list[list[asyncio.Task[httpx.Response]]] = []
        for gate in (g.one, g.two):
            both.append([post(gate, path, stream=stream, headers={"Idempotency-Key": k}) for path, stream, k in asked])
            await clients(g, len(asked) * len(both))
            await asyncio.sleep(1.1)
        for _ in asked:
            await g.hands.answer("Hello", usage=Usage(7, 2))
        for first, second in zip(*both, strict=True):
            again = await g.two.client.get(f"/v1/requests/{(await first).headers['x-doublebuffer-id']}/stream")
            instants = {found for one in (await first, await second, again) for found in CREATED.findall(one.text)}
            assert len(instants) == 1, instants


async def test_who_comes_in_the_middle_reads_from_the_start_and_on() -> None:
    async with gates(None) as g:
        first = post(g.one)
        job = await g.hands.take()
        g.hands.say(job, "Hel")
        await clients(g, 1)
        second = post(g.two)
        await clients(g, 2)
        g.hands.say(job, "lo", Finish("stop"))
        await g.hands.end(job)
        for response in (await first, await second):
            assert response.text.count('"content":"Hel"') == response.text.count('"content":"lo"') == 1
            assert "id:" not in response.text


async def test_another_body_or_route_is_refused() -> None:
    async with gates(None) as g:
        first = post(g.one)
        await g.waiting(1)
        for other in (post(g.two, temperature=0.5), post(g.one, "/api/chat")):
            refused = await other
            assert refused.status_code == 422
            assert "Idempotency-Key" in refused.text
        await g.hands.answer("Hi")
        assert (await first).status_code == 200
        assert (await post(g.two, stream=False)).status_code == 422
        raw = httpx.Request("POST", "http://x", json=body(CHAT)).content + b" "
        blank = await g.two.client.post(CHAT, content=raw, headers=KEY)
        assert blank.status_code == 422


async def test_keys_of_others_are_others() -> None:
    async with gates(None, **keyed()) as g:
        post(g.one, headers=bearer("one"))
        await g.waiting(1)
        post(g.two, headers=bearer("two"))
        await g.waiting(2)


@pytest.mark.parametrize("key", ["a b", "ä", "x" * 256])
async def test_keys_that_are_none(key: str) -> None:
    async with gates(None, 1) as g:
        headers = {"Idempotency-Key": key.encode()}
        refused = await g.one.client.post(CHAT, json=body(CHAT), headers=headers)  # type: ignore[arg-type]
        assert refused.status_code == 400
        assert "Idempotency-Key" in refused.text


NO_ANSWER = [End("failed", Failure("away", 502)), End("failed", Failure("busy", 429)), End("cancelled"), End("expired")]


@pytest.mark.parametrize("end", NO_ANSWER, ids=lambda end: end.failure.message if end.failure else end.kind)
async def test_a_failure_of_the_service_is_no_answer(end: End) -> None:
    async with gates(None) as g:
        first = post(g.one)
        await g.hands.end(await g.hands.take(), end)
        assert (await first).status_code >= 400
        second = post(g.two)
        await g.hands.answer("Hi")
        assert '"content":"Hi"' in (await second).text


async def test_a_failure_whose_gateway_died_is_no_answer_either() -> None:
    """Nobody has taken the key back; who comes next sees how the job ended."""
    async with gates(None) as g:
        first = post(g.one)
        job = await g.hands.take()
        (claim,) = await claims(g)
        await g.hands.end(job, End("failed", Failure("away", 502)))
        await first
        key = next(
            iter([key async for key in g.lanes.store.redis.scan_iter(match=f"{g.lanes.store.prefix}:claimed:*")]), None
        )
        assert key is None
        await _claim_again(g, claim)
        second = post(g.two)
        await g.hands.answer("Hi")
        assert '"content":"Hi"' in (await second).text


async def _claim_again(g: Gates, claim: dict[str, str]) -> None:
    """The key stands for its first job once more."""
    probe = post(g.one)
    await g.waiting(1)
    (key,) = [key async for key in g.lanes.store.redis.scan_iter(match=f"{g.lanes.store.prefix}:claimed:*")]
    probe.cancel()
    await g.waiting(0)
    await g.lanes.store.redis.hset(key, mapping=claim)
    await g.lanes.store.redis.expire(key, 60)


async def test_a_refusal_of_the_request_itself_is_its_answer() -> None:
    async with gates(None) as g:
        first = post(g.one)
        await g.hands.end(await g.hands.take(), End("failed", Failure("too long", 400, "context_length_exceeded")))
        assert (await first).status_code == 400
        again = await post(g.two)
        assert again.status_code == 400
        assert "too long" in again.text
        assert len(g.hands.granted) == 1


async def test_a_request_that_was_never_queued_leaves_nothing() -> None:
    async with gates(None, queue_limit=1) as g:
        blocking = asyncio.create_task(g.one.client.post(CHAT, json=body(CHAT)))
        await g.waiting(1)
        assert (await post(g.one)).status_code == 503
        assert await claims(g) == []
        await g.hands.answer("x")
        await blocking
        second = post(g.two)
        await g.hands.answer("Hi")
        assert '"content":"Hi"' in (await second).text


async def test_several_prompts_under_one_key() -> None:
    async with gates(None) as g:
        path = "/v1/completions"
        asked = [post(gate, path, prompt=["One", "Two"], model=PLAIN, stream=False) for gate in g.gates]
        await clients(g, 2)
        await g.hands.take(2)
        for number, job in enumerate(g.hands.granted):
            g.hands.say(job, f"w{number}", Finish("stop"), Usage(2, 1))
            await g.hands.end(job)
        one, two = [(await each).json() for each in asked]
        assert one["choices"] == two["choices"]
        assert one["usage"] == two["usage"]
        assert {choice["text"] for choice in one["choices"]} == {"w0", "w1"}


async def test_a_key_is_kept_as_long_as_its_answer(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.joining.SUBMIT_S", 0.1)
    async with gates(redis_url) as g:
        first = post(g.one)
        await g.waiting(1)
        redis = g.lanes.store.redis
        (key,) = [key async for key in redis.scan_iter(match=f"{g.lanes.store.prefix}:claimed:*")]
        assert await redis.ttl(key) == pytest.approx(CLAIMED_S, abs=3)
        job = await g.hands.answer("Hi")
        await first

        async def ended() -> bool:
            return bool(0 < await redis.ttl(key) <= DONE_JOB_S)

        await until(ended)
        assert await redis.ttl(g.lanes.keys.reply(job.id)) == pytest.approx(DONE_JOB_S, abs=3)
        assert KEY["Idempotency-Key"].encode() not in repr(await redis.hgetall(key)).encode()
        await redis.delete(g.lanes.keys.reply(job.id))
        second = post(g.two)
        await g.hands.answer("Anew")
        assert '"content":"Anew"' in (await second).text


async def test_a_gateway_that_died_before_it_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key stands for a job that never came; whoever comes next waits a moment for it, and then begins anew."""
    monkeypatch.setattr("gateway.joining.SUBMIT_S", 0.3)
    async with gates(None) as g:
        first = post(g.one)
        await g.waiting(1)
        (claim,) = await claims(g)
        first.cancel()
        await g.waiting(0)
        await _claim_again(g, {**claim, "job": "f" * 32})
        second = post(g.two)
        await g.hands.answer("Hi")
        assert '"content":"Hi"' in (await second).text

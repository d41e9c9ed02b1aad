"""Many requests at once: joined into few calls, each answered with its own vectors, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest

from tests.embeddings.rig import MODEL, House, house
from tests.gateway.rig import Wire, until
from tests.rig.embeddings import close, raw_vector, unit_vector
from tests.rig.engine import expected
from tests.rig.script import HOLD, RST, Status
from worker.calls import MOST_CALLS
from worker.joining import MOST_INPUTS

REDIS = [pytest.param(False, id="embedded"), pytest.param(True, id="redis")]


async def _one(h: House, text: str) -> None:
    answer = await h.embed([text])
    assert answer.status_code == 200, answer.text
    assert close(answer.json()["embeddings"][0], unit_vector(text))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("real", REDIS)
async def test_two_thousand_single_inputs_become_few_calls(real: bool, redis_url: str) -> None:
    async with (
        house("vllm", url=redis_url if real else None, crew=2 if real else 1) as h,
        # As Open WebUI does it, one aiohttp session. Clients, gateway, workers and engine share this process and its
        # one loop, so there are no more connections than it can serve.
        aiohttp.ClientSession(h.url, connector=aiohttp.TCPConnector(limit=400)) as session,
    ):
        h.engine.embeddings.delay_s = 0.05

        async def one(text: str) -> None:
            body = {"model": MODEL, "input": [text], "truncate": True}
            async with session.post("/api/embed", json=body) as answer:
                assert answer.status == 200, await answer.text()
                assert close((await answer.json())["embeddings"][0], unit_vector(text))

        async with asyncio.TaskGroup() as group:
            for i in range(2000):
                group.create_task(one(f"piece {i} of a file"))
        calls = h.engine.embeddings.calls
        assert sum(map(len, calls)) == 2000
        assert len({text for call in calls for text in call}) == 2000
        assert max(map(len, calls)) <= MOST_INPUTS
        print(f"2,000 requests: {len(calls)} calls, the largest of {max(map(len, calls))}")
        assert len(calls) <= 100
        assert h.engine.embeddings.most_running <= MOST_CALLS * (2 if real else 1)
        await h.quiet()


async def test_what_comes_alone_goes_at_once() -> None:
    async with house("vllm", window_ms=2000) as h:
        await _one(h, "warm")
        began_at = time.monotonic()
        await _one(h, "alone")
        assert time.monotonic() - began_at < 1


async def test_a_fixed_window_is_waited_out() -> None:
    async with house("vllm", window_ms=400, window_policy="fixed") as h:
        began_at = time.monotonic()
        await asyncio.gather(*(_one(h, f"t{i}") for i in range(5)))
        assert time.monotonic() - began_at >= 0.35
        assert [len(call) for call in h.engine.embeddings.calls] == [5]


async def test_requests_collect_while_a_call_is_under_way() -> None:
    async with house("vllm", window_ms=10_000) as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(_one(h, "first"))
            await engine.received(1)
            for i in range(30):
                group.create_task(_one(h, f"later {i}"))
            await h.waiting(30)
            engine.gate.set()
        assert [len(call) for call in engine.calls] == [1, 30]


async def test_only_what_fits_together_is_joined() -> None:
    async with house("vllm", window_ms=400, window_policy="fixed") as h:
        answers = await asyncio.gather(
            h.embed(["a", "b"]),
            h.embed("c", dimensions=3),
            h.embed("d", truncate=False),
            h.embed("e", "/api/embeddings"),
            h.embed("f", "/v1/embeddings"),
            h.embed("g", "/v1/embeddings", dimensions=3),
            h.embed([1, 2], "/v1/embeddings"),
            h.embed("h", "/v1/embeddings", truncate=True),
        )
        told = [answer.json() for answer in answers]
        calls = {tuple(map(str, call)) for call in h.engine.embeddings.calls}
        # A cut that is made here divides nobody, nor does the API that was spoken.
        assert {frozenset(call) for call in calls} == {
            frozenset(("a", "b", "c", "h")),
            frozenset(("d",)),
            frozenset(("e",)),
            frozenset(("f",)),
            frozenset(("g",)),
            frozenset(("[1, 2]",)),
        }
        assert close(told[0]["embeddings"][1], unit_vector("b"))
        assert close(told[1]["embeddings"][0], unit_vector("c", 3))
        assert close(told[3]["embedding"], raw_vector("e"))
        assert close(told[5]["data"][0]["embedding"], unit_vector("g", 3))


async def test_a_request_of_many_inputs_goes_in_several_calls() -> None:
    async with house("vllm") as h:
        texts = [f"text {i}" for i in range(2048)]
        answer = (await h.embed(texts, "/v1/embeddings")).json()
        assert [item["index"] for item in answer["data"]] == list(range(2048))
        assert all(close(item["embedding"], unit_vector(t)) for item, t in zip(answer["data"], texts, strict=True))
        assert answer["usage"]["prompt_tokens"] == 2 * 2048
        assert [len(call) for call in h.engine.embeddings.calls] == [256] * 8
        await h.quiet()


@pytest.mark.parametrize("kind", ["vllm", "ollama"])
async def test_a_bad_input_fails_its_own_request_only(kind: str) -> None:
    async with house(kind, window_ms=500, window_policy="fixed") as h:  # type: ignore[arg-type]
        texts = [f"text {i}" + (" poison" if i in (17, 60) else "") for i in range(100)]
        answers = await asyncio.gather(*(h.embed(["companion", text]) for text in texts))
        for text, answer in zip(texts, answers, strict=True):
            if "poison" in text:
                assert (answer.status_code, answer.json()) == (400, {"error": "this input cannot be embedded"})
            else:
                assert close(answer.json()["embeddings"][1], unit_vector(text))
        assert len(h.engine.embeddings.calls) < 40
        assert h.metric(f'attempts_total{{backend="{kind}0",result="refused"}}') == 2
        assert h.metric(f'attempts_total{{backend="{kind}0",result="failed"}}') == 0
        await h.quiet()


async def test_an_input_that_makes_the_engine_fail_is_found_out() -> None:
    async with house("vllm", window_ms=300, window_policy="fixed", breaker_failures=50) as h:
        texts = [f"text {i}" + (" crash" if i == 7 else "") for i in range(40)]
        answers = await asyncio.gather(*(h.embed(text) for text in texts))
        failed = [text for text, answer in zip(texts, answers, strict=True) if answer.status_code != 200]
        assert failed == ["text 7 crash"]
        assert answers[7].status_code == 502
        await h.quiet()


async def test_a_call_that_breaks_off_is_made_again() -> None:
    async with house("vllm") as h:
        h.engine.embeddings.once = [[RST], [Status(503, {"error": {"message": "busy"}})]]
        await _one(h, "again")
        assert len(h.engine.embeddings.calls) == 3


async def test_another_back_end_takes_what_one_cannot() -> None:
    async with house("vllm", "llamacpp") as h:
        h.engine.embeddings.once = [[Status(500, {"error": "no luck"})]] * 2
        await asyncio.gather(*(_one(h, f"t{i}") for i in range(20)))
        assert h.engines[1].embeddings.calls


async def test_answers_that_are_none() -> None:
    nan = {"data": [{"index": 0, "embedding": [0.1, None]}]}
    inf = {"data": [{"index": 0, "embedding": [0.1, 1e300]}]}
    two = {"data": [{"index": 0, "embedding": [0.1]}, {"index": 1, "embedding": [0.1]}]}
    for body in (nan, inf, two, {"data": []}, {"data": [{"index": 0, "embedding": "!!"}]}, b"<html>", {"ok": 1}):
        async with house("openai", max_attempts=1) as h:
            h.engine.embeddings.once = [[Status(200, body)]]
            answer = await h.embed("x")
            assert (answer.status_code, list(answer.json())) == (502, ["error"])


@pytest.mark.parametrize("real", REDIS)
async def test_a_killed_worker_s_calls_are_made_by_another(real: bool, redis_url: str) -> None:
    async with house("vllm", url=redis_url if real else None, crew=2, lease_seconds=2) as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for i in range(20):
                group.create_task(_one(h, f"text {i}"))
            group.create_task(_many(h))
            await engine.received(1)
            await h.kill(0)
            engine.gate.set()
        await h.quiet()


async def _many(h: House) -> None:
    texts = [f"many {i}" for i in range(600)]
    answer = (await h.embed(texts)).json()
    assert all(close(vector, unit_vector(text)) for vector, text in zip(answer["embeddings"], texts, strict=True))


async def test_a_worker_that_stops_finishes_its_calls() -> None:
    async with house("vllm", drain_seconds=20) as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        asks = [asyncio.create_task(_one(h, f"text {i}")) for i in range(10)]
        await engine.received(1)
        await h.waiting(0)
        h.stops[0].set()
        await asyncio.sleep(0.05)
        engine.gate.set()
        await asyncio.gather(*asks)
        async with asyncio.timeout(5):
            await h.workers[0]


async def test_a_worker_that_has_to_stop_hands_its_requests_on() -> None:
    async with house("vllm", crew=2, drain_seconds=0, window_ms=0) as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        asks = [asyncio.create_task(_one(h, f"text {i}")) for i in range(10)]
        await engine.received(1)
        h.stops[0].set()
        async with asyncio.timeout(5):
            await h.workers[0]
        engine.gate.set()
        await asyncio.gather(*asks)
        await h.quiet()


async def test_a_client_that_left_is_not_embedded() -> None:
    async with house("vllm", window_ms=10_000) as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        alone = await Wire.post(h.port, "/api/embed", {"model": MODEL, "input": "alone"})
        call = await engine.received(1)
        stays = asyncio.create_task(_one(h, "stays"))
        leaves = await Wire.post(h.port, "/v1/embeddings", {"model": MODEL, "input": "leaves"})
        await h.waiting(2)
        # One that waits.
        await leaves.leave()
        await h.waiting(1)
        # One whose call is under way: nobody else is in it, so the engine is left too.
        await alone.leave()
        async with asyncio.timeout(2):
            await call.closed.wait()
        await engine.received(2)
        engine.gate.set()
        await stays
        assert engine.calls == [["alone"], ["stays"]]

        async def counted() -> bool:
            return h.metric('requests_total{api="ollama",lane="none",outcome="cancelled"}') == 1

        await until(counted)
        assert h.metric('requests_total{api="openai",lane="none",outcome="cancelled"}') == 1
        assert h.metric('attempts_total{backend="vllm0",result="cancelled"}') == 1
        await h.quiet()


async def test_a_call_goes_on_for_those_who_stay() -> None:
    async with house("vllm", window_ms=300, window_policy="fixed") as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        stays = asyncio.create_task(_one(h, "stays"))
        leaves = await Wire.post(h.port, "/api/embed", {"model": MODEL, "input": "leaves"})
        call = await engine.received(1)
        assert sorted(call.json()["input"]) == ["leaves", "stays"]
        await leaves.leave()

        async def counted() -> bool:
            return h.metric('attempts_total{backend="vllm0",result="cancelled"}') == 1

        await until(counted)
        assert not call.closed.is_set()
        engine.gate.set()
        await stays
        await h.quiet()


@pytest.mark.timeout(120)
async def test_the_queue_s_limit_counts_inputs() -> None:
    async with house("vllm") as h:
        engine = h.engine.embeddings
        engine.gate = asyncio.Event()
        texts = ["x"] * 2000
        async with asyncio.TaskGroup() as group:
            first = [group.create_task(h.embed(["first"] * 256)) for _ in range(2)]
            await engine.received(2)
            asked = []
            for i in range(10):
                asked.append(group.create_task(h.embed(texts)))
                await h.waiting(i + 1)
            for path, code in (("/api/embed", None), ("/api/embeddings", None), ("/v1/embeddings", "queue_full")):
                refused = await h.embed("one too many", path)
                assert refused.status_code == 503
                assert 1 <= int(refused.headers["retry-after"]) <= 120
                error = refused.json()["error"]
                if code is None:
                    assert error == "server busy, please try again.  maximum pending requests exceeded"
                else:
                    assert error["code"] == code
            # Chats have a limit of their own, and places of their own.
            assert (await h.post_chat("marker:hello words:3")).status_code == 200
            engine.gate.set()
            for task in [*first, *asked]:
                assert (await task).status_code == 200
        assert h.metric('requests_total{api="ollama",lane="none",outcome="refused"}') == 2
        assert h.metric('requests_total{api="openai",lane="none",outcome="refused"}') == 1
        await h.quiet()


async def test_embeddings_hold_up_no_chat_nor_chats_an_embedding() -> None:
    places = {"queue_limit": 1, "max_in_flight": 1}
    async with house("vllm", **places, breaker_failures=1, breaker_cooldown_seconds=0.5) as h:
        h.engine.embeddings.gate = asyncio.Event()
        embeddings = [asyncio.create_task(_one(h, f"text {i}")) for i in range(100)]
        await h.engine.embeddings.received(1)
        for _ in range(5):
            answer = await h.post_chat("marker:hello words:3")
            # A model for embeddings is none that thinks, so what the scripted one thinks is taken for words.
            assert answer.json()["choices"][0]["message"]["content"].endswith(expected("marker:hello words:3"))
        # The other way round: every place is taken and the chats' queue is full.
        h.engine.once = [[HOLD]]
        held = asyncio.create_task(h.post_chat("held"))
        await h.engine.received(6)
        waits = asyncio.create_task(h.post_chat("waits"))

        async def does_wait() -> bool:
            return sum(depth.waiting for depth in (await h.chats.depths()).values()) == 1

        await until(does_wait)
        h.engine.embeddings.gate.set()
        await asyncio.gather(*embeddings)
        # A back end that fails at embeddings is as good as before for chats.
        h.engine.embeddings.once = [[Status(500, {"error": "no"})]] * 3
        assert (await h.embed("fails", keep_alive=1)).status_code == 502
        assert 'doublebuffer_breaker_open{backend="vllm0"} 0.0' in (await h.client.get("/metrics")).text
        held.cancel()
        waits.cancel()
        await asyncio.gather(held, waits, return_exceptions=True)

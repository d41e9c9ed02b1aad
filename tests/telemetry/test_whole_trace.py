"""A whole trace over real processes: gateway, Redis, worker and engine, as a collector gets it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import redis.asyncio

from tests.acceptance.site import Site, backends_of, run_engines, run_site
from tests.rig.script import CUT, HOLD, Status, chunk
from tests.telemetry.collector import CLIENT, CONSUMER, ERROR, ROOT, SERVER, Collector, Told, collector

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT, ANSWER, KEY = "whatnobodyistoread", "norwhatitanswers", "nor-this-key-of-the-engine"
SETTINGS = {
    "DOUBLEBUFFER_WINDOW_MS": "0",
    "DOUBLEBUFFER_LEASE_SECONDS": "2",
    "DOUBLEBUFFER_BREAKER_FAILURES": "100",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there() -> AsyncIterator[tuple[Site, Collector]]:
    async with collector() as sink, run_engines(kinds=("vllm", "ollama"), delay_s=0.003) as engines:
        backends = backends_of(engines, api_key=KEY)
        async with run_site(backends, workers=2, settings=SETTINGS | sink.settings, engines=engines) as site:
            yield site, sink


@pytest.fixture
def sink(there: tuple[Site, Collector]) -> Collector:
    return there[1]


@pytest.fixture
def trace() -> str:
    """Each test's own, so that none reads another's late spans."""
    return secrets.token_hex(16)


@pytest.fixture
def site(there: tuple[Site, Collector]) -> Site:
    return there[0]


def parent(trace: str, flags: str = "01") -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{ROOT}-{flags}", "tracestate": "vendor=here"}


async def ask(site: Site, path: str, model: str, headers: dict[str, str], **more: Any) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": False, **more}
    async with httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as client:
        return await client.post(path, json=body, headers=headers)


def named(spans: list[Told], beginning: str) -> list[Told]:
    return [span for span in spans if span.name.startswith(beginning)]


def whole(spans: list[Told]) -> bool:
    """A gateway's span is the last of its trace, or the worker's."""
    return len(named(spans, "POST")) == 1 and len(named(spans, "attempt")) >= 1


ROUTES = [("vllm", "/v1/chat/completions"), ("ollama", "/api/chat")]


@pytest.mark.parametrize(("kind", "path"), ROUTES)
async def test_four_spans_one_trace(site: Site, sink: Collector, trace: str, kind: str, path: str) -> None:
    answer = await ask(site, path, f"m-{kind}", parent(trace))
    assert answer.status_code == 200
    spans = await sink.until(trace, lambda told: len(told) >= 4)
    assert len(spans) == 4
    assert {span.trace for span in spans} == {trace}
    (request,), (queue,) = named(spans, "POST"), named(spans, "queue")
    (attempt,), (call,) = named(spans, "attempt"), named(spans, "chat")
    assert [request.parent, queue.parent, attempt.parent, call.parent] == [ROOT, request.id, request.id, attempt.id]
    assert (request.kind, attempt.kind, call.kind) == (SERVER, CONSUMER, CLIENT)
    assert (request.service, queue.service) == ("doublebuffer-gateway", "doublebuffer-gateway")
    assert (attempt.service, call.service) == ("doublebuffer-worker", "doublebuffer-worker")
    id = answer.headers["x-doublebuffer-id"]
    assert request.name == f"POST {path}"
    assert request.about == {
        "http.request.method": "POST",
        "http.route": path,
        "url.path": path,
        "http.response.status_code": 200,
        "gen_ai.request.model": f"m-{kind}",
        "doublebuffer.job": id,
        "doublebuffer.lane": "fast",
        "doublebuffer.outcome": "ok",
    }
    assert queue.about == {"doublebuffer.job": id, "doublebuffer.lane": "fast", "doublebuffer.taken": True}
    assert attempt.about["doublebuffer.attempt_outcome"] == "done"
    assert attempt.about["doublebuffer.backend"] == f"e-{kind}"
    assert (attempt.about["doublebuffer.attempt"], attempt.about["doublebuffer.takeovers"]) == (1, 0)
    assert request.began_ns <= queue.began_ns <= queue.ended_ns <= request.ended_ns
    assert attempt.began_ns <= call.began_ns <= call.ended_ns <= attempt.ended_ns
    assert {span.status for span in spans} == {0}


@pytest.mark.parametrize(("kind", "path"), ROUTES)
async def test_a_call_speaks_the_conventions_for_generative_ai(
    site: Site, sink: Collector, trace: str, kind: str, path: str
) -> None:
    engine = site.engines[kind]
    answer = (await ask(site, path, f"m-{kind}", parent(trace))).json()
    (call,) = named(await sink.until(trace, lambda told: len(told) >= 4), "chat")
    usage = answer.get("usage") or {
        "prompt_tokens": answer["prompt_eval_count"],
        "completion_tokens": answer["eval_count"],
    }
    about = call.about
    assert (about["gen_ai.operation.name"], about["gen_ai.provider.name"]) == ("chat", kind)
    assert call.name == f"chat {about['gen_ai.request.model']}"
    assert about["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert about["gen_ai.usage.output_tokens"] == usage["completion_tokens"]
    assert about["gen_ai.response.finish_reasons"] == ["stop"]
    assert (about["server.address"], about["server.port"]) == ("127.0.0.1", engine.port)
    assert 0 < about["gen_ai.response.time_to_first_chunk"] < 10
    assert [name for name, _ in call.events] == ["first token"]
    sent = engine.requests[-1].headers
    assert sent["traceparent"] == f"00-{trace}-{call.id}-01"
    assert sent["tracestate"] == "vendor=here"


@pytest.mark.parametrize("stream", [True, False])
async def test_whoever_asked_is_told_when_its_tokens_came(site: Site, trace: str, stream: bool) -> None:
    asked = [{"role": "user", "content": "marker:A words:100"}]
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    answer = await ask(site, "/v1/chat/completions", "m-vllm", parent(trace), messages=asked, stream=stream, **off)
    async with httpx.AsyncClient(base_url=site.url, trust_env=False) as client:
        told = (await client.get(f"/v1/requests/{answer.headers['x-doublebuffer-id']}")).json()
    line = told["timeline"]
    assert told["state"] == "done"
    assert line["arrival"] <= line["started"] <= line["first_token"] <= line["tokens"][0][0]
    assert line["tokens"][0][0] - line["first_token"] < 0.01
    assert line["tokens"][-1][0] <= line["ended"]
    assert line["tokens"] == sorted(line["tokens"])
    assert 10 < len(line["tokens"]) <= 64
    assert line["tokens"][-1][1] >= 100
    assert line["pieces"] == []


async def test_who_joins_a_request_has_a_span_that_names_its_job(site: Site, sink: Collector, trace: str) -> None:
    once = {"idempotency-key": trace}
    first = await ask(site, "/v1/chat/completions", "m-vllm", parent(trace) | once)
    again = await ask(site, "/v1/chat/completions", "m-vllm", parent(trace) | once)
    assert again.content == first.content
    spans = await sink.until(trace, lambda told: len(told) >= 5)
    assert len(named(spans, "chat")) == 1
    ids = {span.about["doublebuffer.job"] for span in spans if span.kind != CLIENT}
    assert ids == {first.headers["x-doublebuffer-id"]}


async def test_embeddings_have_the_gateway_s_spans(site: Site, sink: Collector, trace: str) -> None:
    answer = await ask(site, "/v1/embeddings", "m-vllm", parent(trace), input=PROMPT)
    assert answer.status_code == 200
    queue, request = sorted(await sink.until(trace, lambda told: len(told) >= 2), key=lambda span: span.ended_ns)
    assert (queue.name, queue.parent, request.parent) == ("queue", request.id, ROOT)
    assert request.about["doublebuffer.outcome"] == "ok"
    assert request.about["doublebuffer.job"] == queue.about["doublebuffer.job"]


async def test_a_model_that_nobody_knows_is_named_in_no_span(site: Site, sink: Collector, trace: str) -> None:
    """What a client calls a model is in no span before it is known to be one."""
    answer = await ask(site, "/v1/chat/completions", PROMPT, parent(trace))
    assert answer.status_code == 404
    (request,) = await sink.until(trace, lambda told: len(told) >= 1)
    assert (request.about["doublebuffer.outcome"], request.status) == ("client_error", 0)
    assert "gen_ai.request.model" not in request.about


async def test_who_brings_no_trace_begins_one(site: Site, sink: Collector) -> None:
    answer = await ask(site, "/v1/chat/completions", "m-vllm", {"traceparent": "nonsense"})
    id = answer.headers["x-doublebuffer-id"]
    trace = site.engines["vllm"].requests[-1].headers["traceparent"].split("-")[1]
    spans = await sink.until(trace, lambda told: len(told) >= 4)
    (request,) = named(spans, "POST")
    assert (request.parent, request.about["doublebuffer.job"]) == ("", id)


async def test_who_is_not_sampled_costs_no_span_and_the_engine_is_told(site: Site, sink: Collector, trace: str) -> None:
    await ask(site, "/v1/chat/completions", "m-vllm", parent(trace, "00"))
    sent = site.engines["vllm"].requests[-1].headers["traceparent"].split("-")
    assert (sent[1], sent[3]) == (trace, "00")
    await ask(site, "/v1/chat/completions", "m-vllm", parent(trace))
    assert len(await sink.until(trace, lambda told: len(told) >= 4)) == 4


async def test_a_second_try_is_a_second_attempt_of_the_same_trace(site: Site, sink: Collector, trace: str) -> None:
    quoted = {"error": {"message": f"cannot do {PROMPT} with {KEY}", "code": PROMPT}}
    site.engines["vllm"].once.append([Status(500, quoted)])
    assert (await ask(site, "/v1/chat/completions", "m-vllm", parent(trace))).status_code == 200
    spans = await sink.until(trace, lambda told: whole(told) and len(named(told, "attempt")) == 2)
    (request,), (first, second) = named(spans, "POST"), named(spans, "attempt")
    assert {span.trace for span in spans} == {trace}
    assert first.parent == second.parent == request.id
    assert (first.status, first.sentence) == (ERROR, "The back end failed before it said anything.")
    assert (first.about["error.type"], first.about["doublebuffer.attempt_outcome"]) == ("failed", "again")
    assert (second.status, second.about["doublebuffer.attempt"]) == (0, 2)
    calls = named(spans, "chat")
    assert [call.parent for call in calls] == [first.id, second.id]
    assert [call.status for call in calls] == [ERROR, 0]
    assert request.status == 0


async def test_one_that_fails_says_so_in_our_words(site: Site, sink: Collector, trace: str) -> None:
    # A tool call is nothing that another attempt could lead on from.
    site.engines["vllm"].once.append([_tool_call(), chunk({"content": ANSWER}), CUT])
    answer = await ask(site, "/v1/chat/completions", "m-vllm", parent(trace), stream=True)
    assert "error" in answer.text
    spans = await sink.until(trace, whole)
    request, attempt = named(spans, "POST")[0], named(spans, "attempt")[-1]
    assert (request.status, request.about["doublebuffer.outcome"]) == (ERROR, "backend_error")
    assert request.sentence == "No back end could answer this request."
    (call,) = named(spans, "chat")
    for one in (attempt, call):
        assert (one.status, one.sentence) == (ERROR, "The back end broke off amid the answer.")
        assert one.about["error.type"] == "broken"


async def test_a_client_that_leaves(site: Site, sink: Collector, trace: str) -> None:
    site.engines["vllm"].once.append([HOLD])
    seen = len(site.engines["vllm"].requests)
    task = asyncio.create_task(ask(site, "/v1/chat/completions", "m-vllm", parent(trace)))
    await site.engines["vllm"].received(seen + 1)
    task.cancel()
    spans = await sink.until(trace, whole)
    assert named(spans, "POST")[0].about["doublebuffer.outcome"] == "cancelled"
    assert named(spans, "attempt")[0].about["doublebuffer.attempt_outcome"] == "cancelled"
    assert {span.status for span in spans} == {0}


async def test_a_job_that_was_taken_over_goes_on_in_its_trace(site: Site, sink: Collector, trace: str) -> None:
    engine = site.engines["vllm"]
    engine.once.append([HOLD])
    seen = len(engine.requests)
    task = asyncio.create_task(ask(site, "/v1/chat/completions", "m-vllm", parent(trace)))
    await engine.received(seen + 1)
    await _kill_its_worker(site)
    assert (await task).status_code == 200
    spans = await sink.until(trace, whole)
    (request,), (attempt,) = named(spans, "POST"), named(spans, "attempt")
    assert (attempt.trace, attempt.parent) == (trace, request.id)
    assert (attempt.about["doublebuffer.attempt"], attempt.about["doublebuffer.takeovers"]) == (2, 1)


async def test_nothing_that_was_said_is_in_any_span(sink: Collector) -> None:
    """Of all that the tests before have sent."""
    assert sink.paths == {"/v1/traces"}
    assert len(sink.raw) > 5000
    for secret in (PROMPT, ANSWER, KEY):
        assert secret.encode() not in sink.raw


def _tool_call() -> dict[str, Any]:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"}}
    return chunk({"tool_calls": [call]})


async def _kill_its_worker(site: Site) -> None:
    """Of the one job that runs."""
    async with redis.asyncio.Redis(port=site.redis.port) as client:
        owners: list[Any] = [await client.hmget(key, "st", "worker") async for key in client.scan_iter("*:job:*")]
    ((_, owner),) = [one for one in owners if one[0] == b"running"]
    (its,) = [worker for worker in site.workers if f"-{worker.pid}-" in owner.decode()]
    its.kill()

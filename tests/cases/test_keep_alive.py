"""How long a model stays loaded, in every spelling; and chats without messages, which load a model or free it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import Reply, is_native_error
from tests.cases.rig import BOTH, OAI, OLL, Bench, run_bench
from tests.cases.scripts import oll, plain
from tests.rig.connection import Recorded
from tests.rig.script import HOLD, Piece, Status
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+")
EVER = -1.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(Scripted("openai", kind="vllm", models=[OAI, "m-other"])) as found:
        yield found


def seconds(value: Any) -> float | None:
    """What Ollama makes of a ``keep_alive``; a negative one is for ever, None is refused."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return EVER if value < 0 else float(value)
    if value == "0":
        return 0.0
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return None
    if value.startswith("-"):
        return EVER
    parts = re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)", value)
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def strict(request: Recorded) -> list[Piece]:
    body = request.json()
    if "keep_alive" in body and seconds(body["keep_alive"]) is None:
        return [Status(400, {"error": f'time: missing unit in duration "{body["keep_alive"]}"'})]
    return oll(request, "o", "k")


SPELLED: list[tuple[Any, float]] = [
    *(("-1", EVER), (-1, EVER), ("10m", 600), (0, 0), ("0", 0), (300, 300), ("300", 300)),
    *(("-1m", EVER), ("-1s", EVER), (-0.5, EVER), ("24h", 86400), ("1h30m", 5400), ("1.5h", 5400), ("500ms", 0.5)),
    *(("0s", 0), ("0m", 0), (0.0, 0), (" 5m ", 300), ("+5m", 300), ("1m30.5s", 90.5), ("5.0", 5), (1e3, 1000)),
    *(("-300", EVER), ("250us", 0.00025), (".5m", 30)),
]


@pytest.mark.parametrize("route", ["/api/chat", "/api/generate"])
async def test_every_spelling_means_the_same_at_the_engine(bench: Bench, route: str) -> None:
    bench.oll.script = lambda request: strict(request) if request.path == "/api/chat" else plain(request)
    for value, meant in SPELLED:
        bench.oll.requests.clear()
        asked = {"messages": [{"role": "user", "content": "hi"}]} if route == "/api/chat" else {"prompt": "hi"}
        reply = await bench.ask(route, {"model": OLL, "stream": False, "keep_alive": value, **asked})
        assert reply.status == 200, (value, reply.body)
        (request,) = bench.oll.requests
        assert seconds(request.json()["keep_alive"]) == pytest.approx(meant), value


async def test_engines_of_another_kind_are_not_told(bench: Bench) -> None:
    bench.oai.script = plain
    for value, _ in SPELLED:
        reply = await bench.chat("ollama", OAI, stream=False, keep_alive=value)
        assert reply.content == "ok"
    assert not any("keep_alive" in request.json() for request in bench.oai.requests)


@pytest.mark.parametrize("model", BOTH)
async def test_what_is_no_duration_is_refused(bench: Bench, model: str) -> None:
    values: list[Any] = ["soon", "5 minutes", "10x", "m", "1h-30m", "--1", "1m 30s", "5M", "∞", "", " "]
    values += [True, False, [], [5], {}, {"s": 5}]
    for value in values:
        reply = await bench.chat("ollama", model, stream=False, keep_alive=value)
        assert reply.status == 400, (value, reply.status, reply.body)
        assert is_native_error(reply), value
    assert not bench.engine(model).requests


@pytest.mark.parametrize("value", ["9" * 400, "-" + "9" * 400, "1e400", "999999999h", "1" * 5000 + "h", "1m" * 3000])
async def test_numbers_beyond_all_bounds_do_no_harm(bench: Bench, value: str) -> None:
    bench.oll.script = strict
    reply = await bench.chat("ollama", OLL, stream=False, keep_alive=value)
    assert reply.status == 200 or (reply.status == 400 and is_native_error(reply)), (reply.status, reply.body)
    raw = f'{{"model":"{OLL}","stream":false,"keep_alive":1e300,"messages":[{{"role":"user","content":"x"}}]}}'
    assert (await bench.ask("/api/chat", raw.encode())).status in (200, 400)


# Chats without messages ------------------------------------------------------------------------------------------

LOADS: list[dict[str, Any]] = [
    {"messages": []},
    {},
    {"messages": None},
    {"messages": [], "stream": True},
    {"messages": [], "stream": False, "options": {"num_ctx": 8192}},
    {"messages": [], "keep_alive": -1},
    {"messages": [], "keep_alive": "5m"},
    {"messages": [], "tools": [], "format": None, "think": None},
]
FREES: list[dict[str, Any]] = [
    {"messages": [], "keep_alive": 0},
    {"messages": [], "keep_alive": "0"},
    {"messages": [], "keep_alive": "0s", "stream": True},
    {"keep_alive": 0.0, "stream": False},
]


def told(reply: Reply, route: str, model: str) -> str:
    """The reason of the end, of an answer in one object that says nothing."""
    assert reply.status == 200, (reply.status, reply.body)
    assert reply.type == "application/json", reply.type
    found = reply.json()
    assert found["done"] is True
    assert found["model"] == model
    if route == "/api/chat":
        assert found["message"] == {"role": "assistant", "content": ""}
    else:
        assert found["response"] == ""
    assert reply.took_s < 2
    return str(found["done_reason"])


def generate_form(body: dict[str, Any]) -> dict[str, Any]:
    return {"prompt" if name == "messages" else name: "" if value == [] else value for name, value in body.items()}


async def load_and_free(bench: Bench, model: str) -> None:
    for reason, bodies in (("load", LOADS), ("unload", FREES)):
        for body in bodies:
            assert told(await bench.ask("/api/chat", {"model": model, **body}), "/api/chat", model) == reason, body
            for one in (generate_form(body), {k: v for k, v in body.items() if k != "messages"}):
                one.pop("tools", None)
                reply = await bench.ask("/api/generate", {"model": model, **one})
                assert told(reply, "/api/generate", model) == reason, one


def only_empty_requests(bench: Bench, model: str) -> bool:
    """The engine was asked to answer nothing."""
    if model == OAI:
        return not bench.oai.requests
    return not any(request.json().get("messages") or request.json().get("prompt") for request in bench.oll.requests)


@pytest.mark.parametrize("model", BOTH)
async def test_no_messages_load_a_model_or_free_it(bench: Bench, model: str) -> None:
    bench.oll.script = strict
    await load_and_free(bench, model)
    assert only_empty_requests(bench, model)


@pytest.mark.parametrize("model", BOTH)
async def test_also_while_the_engine_is_busy(bench: Bench, model: str) -> None:
    engine = bench.engine(model)
    usual = engine.script
    # Told by what they ask: whichever request comes next may be a load.
    engine.script = lambda request: ["one", HOLD] if b"a long story" in request.body else strict(request)
    busy = [asyncio.create_task(bench.chat("ollama", model, "a long story")) for _ in range(2)]
    try:
        await engine.received(1)
        await load_and_free(bench, model)
        engine.requests[:] = [request for request in engine.requests if b"a long story" not in request.body]
        assert only_empty_requests(bench, model)
    finally:
        engine.script = usual
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)


async def test_a_model_that_nobody_has(bench: Bench) -> None:
    for route in ("/api/chat", "/api/generate"):
        bodies: list[dict[str, Any]] = [{}, {"keep_alive": 0}]
        for body in bodies:
            reply = await bench.ask(route, {"model": "m-nobody", **body})
            assert reply.status == 404
            assert is_native_error(reply)
            assert "m-nobody" in reply.json()["error"]


async def test_openai_clients_without_messages_are_refused(bench: Bench) -> None:
    bodies: list[dict[str, Any]] = [{"messages": []}, {}, {"messages": None}]
    for body in bodies:
        reply = await bench.ask("/v1/chat/completions", {"model": OLL, **body})
        assert reply.status == 400
        assert reply.json()["error"]["message"]
    assert not bench.oll.requests

"""Thinking on, off, by level, unasked and in words that mean nothing, over both APIs to both kinds of engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import Reply, refused
from tests.cases.rig import BOTH, OAI, OLL, Bench, run_bench
from tests.cases.scripts import oai, oll
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEVELLESS, THOUGHTLESS = "m-bool", "m-plain"
LEVELS = ("low", "medium", "high", "max")
LANE = "X-Doublebuffer-Lane"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(oll=Scripted("ollama", models=[OLL, LEVELLESS, THOUGHTLESS])) as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def strict(bench: Bench, checked: None) -> None:
    bench.oai.script = lambda request: oai(request, "Par", "is", thinking="let me see" if vllm_thinks(request) else "")
    bench.oll.script = ollama_answer


def vllm_thinks(request: Recorded) -> bool:
    return (request.json().get("chat_template_kwargs") or {}).get("enable_thinking", True) is not False


def ollama_answer(request: Recorded) -> list[Piece]:
    body = request.json()
    think = body.get("think")
    if body["model"].startswith(LEVELLESS) and isinstance(think, str):
        return [Status(400, {"error": f'think value "{think}" is not supported for this model'})]
    if body["model"].startswith(THOUGHTLESS) and think:
        return [Status(400, {"error": f'"{body["model"]}" does not support thinking'})]
    return oll(request, "Par", "is", thinking="let me see" if think else "")


def sent(bench: Bench, model: str) -> dict[str, Any]:
    (request,) = bench.engine(model).requests
    return request.json()  # type: ignore[no-any-return]


def asks_to_think(api: str, value: Any) -> dict[str, Any]:
    return {"think" if api == "ollama" else "reasoning_effort": value}


async def thinking_jobs(bench: Bench) -> float:
    return await bench.counted("doublebuffer_requests_total", lane="thinking")


OFF = [
    ("openai", {"reasoning_effort": "none"}),
    ("openai", {"reasoning_effort": "None"}),
    ("openai", {"reasoning": {"effort": "none"}}),
    ("openai", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("ollama", {"think": False}),
    ("ollama", {"think": "none"}),
    ("ollama", {"think": "false"}),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize(("api", "how"), OFF)
async def test_off_is_off(bench: Bench, api: str, how: dict[str, Any], model: str, stream: bool) -> None:
    before = await thinking_jobs(bench)
    reply = await bench.chat(api, model, stream=stream, **how)
    assert (reply.content, reply.thinking) == ("Paris", "")
    body = sent(bench, model)
    if model == OLL:
        assert body["think"] is False
    else:
        assert body["chat_template_kwargs"]["enable_thinking"] is False
    assert reply.headers[LANE] != "thinking"
    assert await thinking_jobs(bench) == before


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_an_engine_that_thinks_all_the_same_is_not_overheard(bench: Bench, api: str, stream: bool) -> None:
    """Whether it puts its thinking into a field or between tags."""
    bench.oai.once += [
        lambda request: oai(request, "Par", "is", thinking="secret"),
        lambda request: oai(request, "<thi", "nk>secret</think>", "\n\nParis"),
        lambda request: oai(request, "<think>", "\n\n</thi", "nk>\n\nParis"),
    ]
    bench.oll.once += [lambda request: oll(request, "Par", "is", thinking="secret")]
    for model in (OAI, OAI, OAI, OLL):
        reply = await bench.chat(api, model, stream=stream, **asks_to_think(api, False if api == "ollama" else "none"))
        assert (reply.content, reply.thinking) == ("Paris", "")
        assert b"secret" not in reply.body
        assert b"think>" not in reply.body


ON = [
    *(("openai", level) for level in ("low", "medium", "high", "minimal", "xhigh", " High ")),
    *(("ollama", level) for level in (True, "low", "medium", "high", "max", "true")),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize(("api", "value"), ON)
async def test_on_and_levels(bench: Bench, api: str, value: Any, model: str, stream: bool) -> None:
    before = await thinking_jobs(bench)
    reply = await bench.chat(api, model, stream=stream, **asks_to_think(api, value))
    assert (reply.content, reply.thinking) == ("Paris", "let me see")
    body = sent(bench, model)
    if model == OLL:
        assert body["think"] is True or body["think"] in LEVELS
        if value in LEVELS:
            assert body["think"] in (value, True)
    else:
        assert body["chat_template_kwargs"]["enable_thinking"] is True
    assert reply.headers[LANE] == "thinking"
    assert await thinking_jobs(bench) == before + 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize(
    ("api", "how"),
    [
        ("openai", {}),
        ("ollama", {}),
        ("openai", {"reasoning_effort": None}),
        ("openai", {"reasoning": {}}),
        ("ollama", {"think": None}),
    ],
)
async def test_who_says_nothing_has_nothing_said(
    bench: Bench, api: str, how: dict[str, Any], model: str, stream: bool
) -> None:
    before = await thinking_jobs(bench)
    reply = await bench.chat(api, model, stream=stream, **how)
    assert reply.content == "Paris"
    assert not {"think", "reasoning", "reasoning_effort", "chat_template_kwargs"} & set(sent(bench, model))
    # A model that thinks by itself is no claim to go first.
    assert reply.headers[LANE] != "thinking"
    assert await thinking_jobs(bench) == before


SILLY: list[tuple[str, dict[str, Any]]] = [
    *(("openai", {"reasoning_effort": word}) for word in ("silly", "nonee", "hi gh", 7, {"effort": "low"}, True)),
    ("openai", {"reasoning": {"effort": "silly"}}),
    *(("ollama", {"think": word}) for word in ("silly", "hihg", 7, {"a": 1})),
]


@pytest.mark.parametrize("model", BOTH)
async def test_words_that_mean_nothing_are_refused(bench: Bench, model: str) -> None:
    for api, how in SILLY:
        for stream in (True, False):
            reply = await bench.chat(api, model, stream=stream, **how)
            assert refused(reply, "/api/chat" if api == "ollama" else "/v1/chat/completions"), (how, reply.body)
    assert bench.engine(model).requests == []
    assert await bench.site.leftovers(within_s=0) == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("api", "value"), [("openai", "medium"), ("openai", "low"), ("openai", "xhigh"), ("ollama", "high")]
)
async def test_a_model_without_levels(bench: Bench, api: str, value: str, stream: bool) -> None:
    """Asked without the level, or its refusal passed on: no failure, and no second try at what cannot work."""
    reply = await bench.chat(api, LEVELLESS, stream=stream, **asks_to_think(api, value))
    if reply.status == 200:
        assert (reply.content, reply.thinking) == ("Paris", "let me see")
        assert bench.oll.requests[-1].json()["think"] is True
    else:
        assert refused(reply, "/api/chat" if api == "ollama" else "/v1/chat/completions"), reply.body
        assert len(bench.oll.requests) == 1


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("value", [True, "high", "low"])
async def test_a_model_that_cannot_think(bench: Bench, value: Any, stream: bool) -> None:
    """Its list says that it can: only the engine's own refusal tells."""
    reply = await bench.chat("ollama", THOUGHTLESS, stream=stream, think=value)
    assert refused(reply, "/api/chat")
    assert "does not support thinking" in reply.json()["error"]
    assert len(bench.oll.requests) == 1


async def test_each_of_many_requests_is_counted_as_what_it_was(bench: Bench) -> None:
    before = await thinking_jobs(bench)
    replies: list[Reply] = []
    for model in BOTH:
        for api, values in (("openai", ("none", "low", ..., "high")), ("ollama", (False, True, ..., "high"))):
            replies += [await bench.chat(api, model, stream=False, **asks_to_think(api, v)) for v in values]
    assert [reply.headers[LANE] == "thinking" for reply in replies] == [False, True] * 8
    assert await thinking_jobs(bench) == before + 8

"""Whatever shapes an answer makes the question another one; how it is spelled, and by which API it comes, does not."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.cases.reply import Reply
from tests.cases.rig import BOTH, OAI, OLL, Bench, run_bench, settings
from tests.cases.scripts import oai, oll
from tests.cases.test_pictures import SMALL
from tests.rig.connection import Recorded
from tests.rig.script import Piece
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

OTHER = "-other"
ANN, BOB = "ck-ann-1", "ck-bob-2"
PICTURE = base64.b64encode(SMALL).decode()
ANOTHER = base64.b64encode(SMALL + b"x").decode()
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class Numbers:
    """An engine's answers: a running number, so that a kept one is known by it."""

    def __init__(self) -> None:
        self.number = itertools.count(1)

    def __call__(self, request: Recorded) -> list[Piece]:
        text = f"n{next(self.number)}"
        return (
            oll(request, text[:1], text[1:]) if request.path.startswith("/api/") else oai(request, text[:1], text[1:])
        )


def with_cache(**more: str) -> dict[str, str]:
    return settings() | {f"DOUBLEBUFFER_{name.upper()}": value for name, value in {"cache": "on", **more}.items()}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    engines = (
        Scripted("openai", kind="vllm", models=[OAI, OAI + OTHER]),
        Scripted("ollama", models=[OLL, OLL + OTHER]),
    )
    async with run_bench(*engines, more=with_cache()) as found:
        yield found


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def numbered(bench: Bench, checked: None) -> None:
    bench.oai.script = bench.oll.script = Numbers()
    assert (await bench.ask("/v1/cache", method="DELETE")).status == 200


def base(of: str, prompt: str = "how far is the moon", **changes: Any) -> dict[str, Any]:
    """The question from which the others differ in one thing."""
    options = {"temperature": 0, "seed": 1, "num_ctx": 2048, **changes.pop("options", {})}
    messages = changes.pop("messages", [{"role": "user", "content": prompt}])
    options = {name: value for name, value in options.items() if value is not ...}
    return {"model": of, "messages": messages, "stream": False, "think": False, "options": options, **changes}


CHANGES: dict[str, dict[str, Any]] = {
    "context": {"options": {"num_ctx": 8192}},
    "seed": {"options": {"seed": 2}},
    "length": {"options": {"num_predict": 5}},
    "stop": {"options": {"stop": ["x"]}},
    "form": {"format": "json"},
    "schema": {"format": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "system": {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "how far"}]},
    "another system": {"messages": [{"role": "system", "content": "be long"}, {"role": "user", "content": "how far"}]},
    "earlier turns": {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "how far"},
        ]
    },
    "picture": {"messages": [{"role": "user", "content": "what is this", "images": [PICTURE]}]},
    "another picture": {"messages": [{"role": "user", "content": "what is this", "images": [ANOTHER]}]},
    "two pictures": {"messages": [{"role": "user", "content": "what is this", "images": [PICTURE, PICTURE]}]},
    "penalty": {"options": {"repeat_penalty": 1.2}},
    "sampler of one engine": {"options": {"mirostat": 2}},
    "probabilities": {"logprobs": True},
    "more probabilities": {"logprobs": True, "top_logprobs": 3},
}
NEVER: dict[str, dict[str, Any]] = {
    "thinking": {"think": True},
    "a level of thinking": {"think": "high"},
    "tools": {"tools": [TOOL]},
    "chance": {"options": {"temperature": 0.8, "seed": ...}},
    "nothing said of chance": {"options": {"temperature": ..., "seed": ...}},
    "a seed that is none": {"options": {"temperature": 0.8, "seed": -1}},
}


async def ask(bench: Bench, body: dict[str, Any], **headers: str) -> Reply:
    reply = await bench.ask("/api/chat", body, headers=headers)
    assert reply.status == 200, reply.body
    return reply


def seen(bench: Bench) -> int:
    return len(bench.oai.requests) + len(bench.oll.requests)


@pytest.mark.parametrize("model", BOTH)
async def test_a_change_of_any_one_thing_is_another_question(bench: Bench, model: str) -> None:
    first, second = [await ask(bench, base(model)) for _ in range(2)]
    assert first.content == second.content
    assert [one.headers["x-doublebuffer-cache"] for one in (first, second)] == ["miss", "hit"]
    assert seen(bench) == 1
    told = {first.content}
    for name, change in {**CHANGES, "model": {"model": model + OTHER}}.items():
        changed, again = [await ask(bench, base(model, **change)) for _ in range(2)]
        assert changed.content not in told, name
        assert again.content == changed.content, name
        assert again.headers["x-doublebuffer-cache"] == "hit", name
        told.add(changed.content)
    assert seen(bench) == len(told)
    for name, change in NEVER.items():
        for _ in range(2):
            never = await ask(bench, base(model, **change))
            assert never.content not in told, name
            assert never.headers["x-doublebuffer-cache"] == "bypass", name
            told.add(never.content)
    assert (await ask(bench, base(model))).content == first.content


@pytest.mark.parametrize("model", BOTH)
async def test_another_spelling_is_the_same_question(bench: Bench, model: str) -> None:
    asked = base(model)
    first = await ask(bench, asked)
    spelled: list[dict[str, Any] | bytes] = [
        dict(reversed(asked.items())) | {"options": dict(reversed(asked["options"].items()))},
        asked | {"options": {"num_ctx": 2048.0, "seed": 1.0, "temperature": 0.0, "stop": [], "num_predict": -1}},
        asked | {"model": model.upper(), "format": "", "tools": [], "truncate": True, "keep_alive": "9m"},
        json.dumps(asked, indent=4).encode(),
        json.dumps(asked).replace("moon", "\\u006doon").encode(),
    ]
    for body in spelled:
        again = await bench.ask("/api/chat", body)
        assert again.content == first.content, body
        assert again.headers["x-doublebuffer-cache"] == "hit", body
    streamed = await ask(bench, asked | {"stream": True})
    assert streamed.content == first.content
    assert len(streamed.lines()) >= 2
    assert streamed.lines()[-1]["done"] is True
    # The same of OpenAI's clients, if they say the same.
    options: dict[str, Any] = {"temperature": 0, "seed": 1, "options": {"num_ctx": 2048}, "think": False}
    for stream in (True, False):
        other = await bench.chat("openai", model, "how far is the moon", stream=stream, **options)
        assert other.content == first.content
        assert other.headers["x-doublebuffer-cache"] == "hit"
    assert seen(bench) == 1


async def test_what_a_client_says_of_caches_is_obeyed(bench: Bench) -> None:
    asked = base(OLL)
    first = await ask(bench, asked, **{"cache-control": "no-store"})
    second = await ask(bench, asked)
    assert first.content != second.content, "no-store writes nothing"
    third = await ask(bench, asked, **{"cache-control": "No-Cache"})
    assert third.content not in {first.content, second.content}
    assert (await ask(bench, asked)).content == third.content, "no-cache does not read, but writes"
    fourth = await ask(bench, asked, **{"cache-control": "max-age=600, no-store"})
    assert fourth.content != third.content, "no-store does not read"
    assert (await ask(bench, asked)).content == third.content
    assert {one.headers["x-doublebuffer-cache"] for one in (first, third, fourth)} == {"bypass"}
    # A proxy has its own word behind the client's.
    fields = [("cache-control", "no-store"), ("cache-control", "no-cache")]
    proxied = await bench.client.post("/api/chat", json=base(OLL, "a secret"), headers=fields)
    assert (await ask(bench, base(OLL, "a secret"))).content != proxied.json()["message"]["content"]
    assert await bench.counted("doublebuffer_cache_total", result="bypass") >= 3


async def test_kept_answers_have_a_lifetime(bench: Bench) -> None:
    await ask(bench, base(OLL, "a question with a lifetime"))
    client = Redis(port=bench.site.redis.port)
    try:
        keys = [key async for key in client.scan_iter(match="*{answers}:*")]
        assert any(b":answer:" in key for key in keys)
        for key in keys:
            assert 0 < await client.ttl(key) <= 3600, key
            if b":answer:" in key:
                assert await client.ttl(key) <= 300
    finally:
        await client.aclose()


async def test_what_stands_apart_from_the_turns_counts_too(bench: Bench) -> None:
    """After 567-labs/instructor #2524: the system prompt that one API has in a field of its own was not in the key; and
    langchain-ai/langchainjs #10092: nor were pictures.
    """

    def message(system: str, **more: Any) -> dict[str, Any]:
        turns = [{"role": "user", "content": "hello"}]
        return {"model": OAI, "max_tokens": 99, "temperature": 0, "system": system, "messages": turns, **more}

    def picture(data: str) -> dict[str, Any]:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        parts = [{"type": "image", "source": source}, {"type": "text", "text": "what is this"}]
        return message("", messages=[{"role": "user", "content": parts}])

    told = {}
    bodies = {
        "French": ("/v1/messages", message("Answer in French.")),
        "German": ("/v1/messages", message("Answer in German.")),
        "one picture": ("/v1/messages", picture(PICTURE)),
        "another": ("/v1/messages", picture(ANOTHER)),
        "instructions": (
            "/v1/responses",
            {"model": OAI, "temperature": 0, "instructions": "Answer in French.", "input": "hi"},
        ),
        "others": (
            "/v1/responses",
            {"model": OAI, "temperature": 0, "instructions": "Answer in German.", "input": "hi"},
        ),
    }
    for name, (path, body) in bodies.items():
        first, second = [await bench.ask(path, body) for _ in range(2)]
        assert first.headers["x-doublebuffer-cache"] == "miss", name
        assert second.headers["x-doublebuffer-cache"] == "hit", name
        told[name] = said(second)
        assert said(first) == told[name]
    assert len(set(told.values())) == len(bodies)
    assert seen(bench) == len(bodies)


def said(reply: Reply) -> str:
    data = reply.json()
    blocks = data["content"] if "content" in data else data["output"][0]["content"]
    return str(blocks[0]["text"])


@pytest.mark.parametrize("per_user", ["on", "off"])
async def test_nobody_gets_what_another_asked_for_where_that_is_so_set(per_user: str) -> None:
    """After wso2/api-platform #733: all users shared one cache; and andreimerfu/pllm #17: kept answers went past the
    keys.
    """
    more = with_cache(cache_per_user=per_user, api_keys=f"ann:{ANN},bob:{BOB}")
    async with run_bench(more=more, key=ANN, workers=1) as bench:
        bench.oll.script = Numbers()
        asked = base(OLL, "what is my balance")
        replies = [
            await bench.ask("/api/chat", asked, headers={"authorization": f"Bearer {key}"})
            for key in (ANN, ANN, BOB, BOB, "ck-nobody")
        ]
        assert [one.status for one in replies] == [200, 200, 200, 200, 401]
        numbers = [one.content for one in replies[:4]]
        assert numbers == (["n1", "n1", "n2", "n2"] if per_user == "on" else ["n1"] * 4)

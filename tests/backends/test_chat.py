"""Jobs at scripted back ends: what goes over the wire, and what comes back."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from contextlib import aclosing
from typing import Any

import pytest

from buffer.backend import Kind
from buffer.job import Content, Finish, Front, ImagePart, Message, Reasoning, TextPart, Usage
from tests.backends.rig import KINDS, Outcome, backend, chat, closed_soon, ending, run, scripted
from tests.rig.connection import Recorded
from tests.rig.engine import expected
from tests.rig.script import (
    HOLD,
    Sleep,
    Status,
    answer,
    chunk,
    done,
    encode,
    usage,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("think", ["unset", "on", "off"])
async def test_answers_of_each_kind(kind: Kind, think: Any) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, chat("marker:abc words:20", think=think))
    assert outcome.error is None
    assert outcome.said == expected("marker:abc words:20")
    assert outcome.thought == ("" if think == "off" else "thought 1 thought 2 thought 3 ")
    assert sum(isinstance(event, Finish) for event in outcome.events) == 1
    counts = [event for event in outcome.events if isinstance(event, Usage)][-1]
    assert (counts.prompt, counts.completion) == (2, 21 if think == "off" else 24)


@pytest.mark.parametrize(("front", "expected"), [("openai", {}), ("ollama", {"think": "high"})])
async def test_ollamas_word_on_who_can_think_holds(front: Front, expected: dict[str, str]) -> None:
    """Its refusal is part of its own API. OpenAI's clients expect an effort to be without effect there."""
    async with scripted("ollama") as engine, backend(engine.url, "ollama") as of:
        listed = {"name": "up", "model": "up", "capabilities": ["completion"]}
        engine.pages["/api/tags"] = Status(200, {"models": [listed]})
        await of.probe()
        await run(of, chat(think="high", front=front))
        sent = engine.requests[0].json()
    assert {name: sent[name] for name in ("think",) if name in sent} == expected


@pytest.mark.parametrize("kind", KINDS)
async def test_events_come_while_the_engine_is_still_at_it(kind: Kind) -> None:
    async with (
        scripted(kind, ["one", HOLD]) as engine,
        backend(engine.url, kind) as of,
        aclosing(of.chat(chat(), upstream_model="up", request_id="r")) as stream,
    ):
        assert await anext(stream) == [Content("one")]


async def test_what_one_read_brings_comes_together() -> None:
    together = b"".join(encode("openai", piece) for piece in ("a", "b", "c"))
    async with scripted("vllm", [together, Sleep(0.05), *ending("vllm")]) as engine, backend(engine.url) as of:
        assert (await run(of)).reads[0] == [Content("a"), Content("b"), Content("c")]


@pytest.mark.parametrize(("kind", "path"), [("vllm", "/v1/chat/completions"), ("ollama", "/api/chat")])
async def test_headers(kind: Kind, path: str) -> None:
    async with scripted(kind) as engine:
        for url in (engine.url, f"{engine.url}/", f"{engine.url}{'/api' if kind == 'ollama' else '/v1/'}"):
            async with backend(url, kind, api_key="k") as of:
                await run(of)
        async with backend(engine.url, kind) as of:
            await run(of)
    first, *_, last = engine.requests
    assert {request.path for request in engine.requests} == {path}
    assert first.headers["authorization"] == "Bearer k"
    assert "authorization" not in last.headers
    assert last.headers["accept-encoding"] == "identity"
    assert last.headers["content-type"] == "application/json"


async def test_request_ids_are_new_for_every_attempt() -> None:
    async with scripted("vllm") as engine, backend(engine.url) as of:
        for _ in range(2):
            await run(of, request_id="job/1 x")
    ids = [request.headers["x-request-id"] for request in engine.requests]
    assert ids[0] != ids[1]
    assert all(one.startswith("job-1-x-") for one in ids)


@pytest.mark.parametrize("kind", KINDS)
async def test_answer_that_comes_whole(kind: Kind) -> None:
    whole = (
        done()
        if kind == "ollama"
        else usage(7, 1) | {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    )
    if kind == "ollama":
        whole["message"]["content"] = "Hi"
    async with scripted(kind, [Status(200, whole)]) as engine, backend(engine.url, kind) as of:
        outcome = await run(of)
    assert (outcome.said, outcome.kind) == ("Hi", "ok")
    assert isinstance(outcome.events[-1], Usage)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_byte_in_a_segment_of_its_own(kind: Kind) -> None:
    text = "温度 🌍 é"
    flavour = "ollama" if kind == "ollama" else "openai"
    data = b"".join(encode(flavour, piece) for piece in (text, *ending(kind)))  # type: ignore[arg-type]
    async with scripted(kind, [data[i : i + 1] for i in range(len(data))]) as engine, backend(engine.url, kind) as of:
        assert (await run(of)).said == text


@pytest.mark.parametrize("kind", KINDS)
async def test_one_line_of_six_megabytes(kind: Kind) -> None:
    async with scripted(kind, ["a" * 6_291_456, *ending(kind)]) as engine, backend(engine.url, kind) as of:
        started_at = time.monotonic()
        outcome = await run(of)
    assert outcome.said == "a" * 6_291_456
    assert time.monotonic() - started_at < 5


@pytest.mark.parametrize("kind", KINDS)
async def test_picture_of_fifteen_megabytes(kind: Kind) -> None:
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + os.urandom(15 * 1024 * 1024)).decode()
    message = Message("user", [TextPart("what"), ImagePart(f"data:image/png;base64,{picture}"), TextPart("is this")])
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        asked = chat()
        asked.messages = [message]
        assert (await run(of, asked)).error is None
        sent = engine.requests[0].json()["messages"][0]
    if kind == "ollama":
        assert sent == {"role": "user", "content": "what\nis this", "images": [picture]}
    else:
        assert sent["content"][1]["image_url"]["url"] == f"data:image/png;base64,{picture}"


@pytest.mark.parametrize("kind", KINDS)
async def test_several_answers(kind: Kind) -> None:
    def seeded(request: Recorded) -> Any:
        return answer("ollama" if kind == "ollama" else "openai", f"seed {seed_of(request)}")

    def seed_of(request: Recorded) -> Any:
        body = request.json()
        return body.get("seed", body.get("options", {}).get("seed"))

    asked = chat("marker:abc words:3", n=3, think="off")
    asked.sampling.seed = 5
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        if kind in ("ollama", "llamacpp"):
            engine.script = seeded
        outcome = await run(of, asked)
    assert outcome.error is None
    texts = ["".join(e.text for e in outcome.events if isinstance(e, Content) and e.index == i) for i in range(3)]
    ends = sorted(event.index for event in outcome.events if isinstance(event, Finish))
    assert ends == [0, 1, 2]
    if kind in ("ollama", "llamacpp"):
        assert texts == ["seed 5", "seed 6", "seed 7"]
        assert outcome.events[-1].prompt == 7  # type: ignore[union-attr]
        assert outcome.events[-1].completion == 3  # type: ignore[union-attr]
    else:
        assert texts == [expected("marker:abc words:3")] * 3
        assert len(engine.requests) == 1


async def test_first_error_of_several_answers_ends_all() -> None:
    async with scripted("ollama") as engine, backend(engine.url, "ollama") as of:
        engine.once += [answer("ollama", "one"), [Status(500, {"error": "boom"})]]
        outcome = await run(of, chat(n=3))
        assert outcome.kind == "broken"
        assert len(engine.requests) == 2


@pytest.mark.parametrize("kind", ["ollama", "llamacpp"])
async def test_several_answers_take_one_place(kind: Kind) -> None:
    """They were given one: what more they took at the engine would be somebody else's."""
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, chat(n=5))
        assert outcome.error is None
        assert (len(engine.requests), engine.most_running) == (5, 1)


async def test_stop_text_that_the_engine_does_not_know_ends_it() -> None:
    pieces = [chunk({"content": text}, usage={"prompt_tokens": 7, "completion_tokens": 1}) for text in ("one E", "ND")]
    async with scripted("vllm", [*pieces, HOLD]) as engine, backend(engine.url) as of:
        outcome = await run(of, chat(stop=["a", "b", "c", "d", "END"]))
        assert outcome.events == [Content("one "), Finish("stop"), Usage(7, 1)]
        await closed_soon(engine.requests[0])


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
async def test_prompt_that_is_too_long_loses_its_oldest_turns(kind: Kind) -> None:
    def small(request: Recorded) -> Any:
        size = sum(len(message["content"]) for message in request.json()["messages"])
        if size <= 250:
            return answer("openai", "ok")
        words = f"request ({size} tokens) exceeds the available context size (250 tokens), try increasing it"
        return [Status(400, {"error": {"message": words, "type": "exceed_context_size_error"}})]

    asked = chat(front="ollama")
    asked.messages = [Message("system", "s" * 50), *(Message("user", f"{i}" * 100) for i in range(6))]
    async with scripted(kind, small) as engine, backend(engine.url, kind) as of:
        assert (await run(of, asked)).said == "ok"
        sent = engine.requests[-1].json()["messages"]
        assert (sent[0]["role"], sent[-1]["content"]) == ("system", "5" * 100)
        engine.requests.clear()
        for unwilling in (chat(front="ollama", truncate=False), chat(front="openai"), chat("x" * 300, front="ollama")):
            unwilling.messages = asked.messages if len(unwilling.messages[0].text()) == 1 else unwilling.messages
            error = (await run(of, unwilling)).error
            assert error is not None
            assert (error.kind, error.code) == ("client", "context_length_exceeded")
        assert len(engine.requests) == 3


async def test_engine_seen_to_parse_is_trusted_with_where_thinking_ends() -> None:
    """A model whose prompt opens the thinking: without a parser only the close tag shows."""
    async with scripted("vllm", ["hm</think>\n\nfine", *ending("vllm")]) as engine, backend(engine.url) as of:
        outcome = await run(of, model="QwQ-32B")
        assert (outcome.thought, outcome.said) == ("hm", "fine")
        engine.once.append([chunk({"reasoning": "hm"}), "fine", *ending("vllm")])
        assert (await run(of, model="QwQ-32B")).events[0] == Reasoning("hm")
        engine.once.append(["no thought", *ending("vllm")])
        assert (await run(of, model="QwQ-32B")).said == "no thought"


async def test_many_at_once() -> None:
    async with scripted("vllm") as engine, backend(engine.url) as of:
        outcomes: list[Outcome] = await asyncio.gather(*(run(of, f"marker:m{i} words:50") for i in range(64)))
    assert [outcome.said for outcome in outcomes] == [expected(f"marker:m{i} words:50") for i in range(64)]

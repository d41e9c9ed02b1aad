"""An answer that breaks off after its first word is gone on with by another attempt: the client reads one text."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from buffer.job import Chat, End, Finish, Format, Message, Reasoning, Usage, encode_chat
from buffer.store import Store
from tests.rig.script import (
    CUT,
    DONE,
    FIN,
    HEAD,
    HOLD,
    RST,
    Piece,
    chunk,
    finish,
    line,
    reasoning,
    role,
    tool,
    usage,
)  # fmt: skip
from tests.rig.scripted import Scripted
from tests.worker.rig import Crew, Gate, quiet, settings, spec, working

WHOLE = End("done")
PROMPT = "marker:hi words:4"
ANSWER = "hi 1 2 3 4"
BREAKS: dict[str, list[Piece]] = {
    "a reset": [RST],
    "a cut": [CUT],
    "an end of the body": [FIN],
    "an end of the stream": [DONE],
    "silence": [HOLD],
    "an error": [{"error": {"message": "EngineCore encountered an issue.", "code": 500}}, DONE],
    "an abort": [finish("abort"), DONE],
    "something else": [b"data: <html>502 Bad Gateway</html>\n\n"],
}
TOOL = Raw(b'{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}')


def counted(crew: Crew, name: str, *labels: str) -> float:
    metric: Any = getattr(crew.workers[0].pools[0].telemetry, name)
    return float((metric.labels(*labels) if labels else metric)._value.get())


def chat(**fields: Any) -> bytes:
    fields.setdefault("think", "off")
    return encode_chat(Chat("m-oai", [Message("user", PROMPT)], stream=True, **fields))


@pytest.mark.parametrize("trouble", BREAKS)
async def test_whatever_breaks_it(store: Store, door: Gate, trouble: str) -> None:
    config = settings(stall_timeout_seconds=0.3)
    async with (
        Scripted("openai", kind="vllm") as one,
        Scripted("openai", kind="llamacpp") as two,
        working(store, spec(one, name="one"), spec(two, name="two", max_in_flight=1), config=config) as crew,
    ):
        broken = [role() | {"system_fingerprint": "fp"}, "hi", " 1", *BREAKS[trouble]]
        one.once = two.once = [broken]  # whichever gets it
        ask = await door.ask(PROMPT)
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER
        assert [event for event in ask.events if isinstance(event, Finish)] == [Finish("stop")]
        assert (len(one.requests), len(two.requests)) == (1, 1), "the other one goes on"
        second = max(one.requests + two.requests, key=lambda request: request.at)
        assert second.json()["messages"][-1] == {"role": "assistant", "content": "hi 1"}
        assert counted(crew, "resumed") == 1
        assert sum(counted(crew, "attempts", name, "broken") for name in ("one", "two")) == 1
        assert sum(counted(crew, "attempts", name, "ok") for name in ("one", "two")) == 1
    await quiet(door.lanes)


async def test_counts_are_those_of_the_whole(store: Store, door: Gate) -> None:
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine)):
        engine.once = [
            [role(), "hi", " 1", RST],
            [role(), " 2", RST],
            [role(), " 3", " 4", finish(), usage(10, 2), DONE],
        ]
        ask = await door.ask(PROMPT)
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER
        assert ask.events[-1] == Usage(7, 5), "three of the ten were words of the answer"


async def test_tokens_are_not_spent_twice(store: Store, door: Gate) -> None:
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine)):
        engine.once = [[role(), "hi", " 1", RST], [role(), " 2", RST]]
        ask = await door.ask(body=chat(max_tokens=4))
        assert await ask.end() == WHOLE
        assert ask.text == "hi 1 2 3"
        assert [request.json()["max_tokens"] for request in engine.requests] == [4, 2, 1]
        engine.once = [[role(), "hi", " 1", RST]]
        ask = await door.ask(body=chat(max_tokens=2))
        assert await ask.end() == WHOLE
        assert [event for event in ask.events if isinstance(event, Finish)] == [Finish("length")]
        assert len(engine.requests) == 4, "nothing was left to ask for"


async def test_thinking_goes_along(store: Store, door: Gate) -> None:
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine)):
        engine.once = [[role(), reasoning("Let me"), reasoning(" see."), "hi", RST]]
        ask = await door.ask(body=chat(think="on"))
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER
        assert [event.text for event in ask.events if isinstance(event, Reasoning)] == ["Let me", " see."]
        assert engine.requests[1].json()["messages"][-1]["reasoning"] == "Let me see."


IMPOSSIBLE: dict[str, tuple[dict[str, Any], list[Piece]]] = {
    "in the middle of thinking": ({"think": "on"}, [role(), reasoning("Let me"), RST]),
    "in a tool call": ({"tools": [TOOL]}, [role(), "hi", tool(0, '{"a', call_id="c", name="f"), RST]),
    "of a form": ({"format": Format("json")}, [role(), "{", RST]),
    "of a grammar": ({"extra": {"guided_regex": Raw(b'"a+"')}}, [role(), "a", RST]),
    "with probabilities": ({"logprobs": True}, [role(), "hi", RST]),
    "of several answers": ({"n": 2}, [chunk({"content": "hi"}), RST]),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
async def test_what_cannot_be_gone_on_with_ends(store: Store, door: Gate, what: str) -> None:
    fields, script = IMPOSSIBLE[what]
    body = chat(**fields)
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine)) as crew:
        engine.once = [script]
        end = await (await door.ask(body=body)).end()
        assert end.kind == "failed"
        assert end.failure is not None
        assert end.failure.message.endswith("closed the connection before the answer was complete.")
        assert len(engine.requests) == 1
        assert counted(crew, "resumed") == 0


@pytest.mark.parametrize("kind", ["vllm", "openai"])
async def test_nor_where_nobody_can_or_may(store: Store, door: Gate, kind: str) -> None:
    """An unknown server; or an operator who wants none of it."""
    config = settings(resume=kind == "openai")
    async with Scripted("openai", kind=kind) as engine, working(store, spec(engine), config=config):
        engine.once = [[role(), "hi", RST]]
        ask = await door.ask(PROMPT)
        assert (await ask.end()).kind == "failed"
        assert (ask.text, len(engine.requests)) == ("hi", 1)


async def test_tries_are_counted_over_all_of_it(store: Store, door: Gate) -> None:
    async with Scripted("openai", kind="vllm") as engine, working(store, spec(engine)):
        engine.once = [[role(), word, RST] for word in ("hi", " 1", " 2", " 3")]
        ask = await door.ask(PROMPT)
        assert (await ask.end()).kind == "failed"
        assert (ask.text, len(engine.requests)) == ("hi 1 2", 3)
        assert await door.lanes.store.redis.xlen(door.lanes.keys.dead) == 1
        engine.once = [[HEAD, RST], [role(), "hi", RST], [HEAD, RST]]
        ask = await door.ask(PROMPT)
        assert (await ask.end()).kind == "failed"
        assert (ask.text, len(engine.requests)) == ("hi", 6)
    await quiet(door.lanes)


OLLAMA: dict[str, list[Piece]] = {
    "a reset": [RST],
    "an error": [{"error": "llama runner process has terminated"}],
    "an end without a reason": [{"message": {"role": "assistant", "content": ""}, "done": True}],
    "silence": [HOLD],
}


@pytest.mark.parametrize("trouble", OLLAMA)
async def test_ollama_too(store: Store, door: Gate, trouble: str) -> None:
    async with (
        Scripted("ollama") as engine,
        working(store, spec(engine), config=settings(stall_timeout_seconds=0.3)),
    ):
        engine.once = [[line(thinking="hm"), "hi", " 1", *OLLAMA[trouble]]]
        body = encode_chat(Chat("m-oll", [Message("user", PROMPT)], stream=True, think="on"))
        ask = await door.ask(body=body, model="m-oll")
        assert await ask.end() == WHOLE
        assert ask.text == ANSWER
        assert [event.text for event in ask.events if isinstance(event, Reasoning)] == ["hm"]
        sent = engine.requests[1].json()
        assert sent["messages"][-1] == {"role": "assistant", "content": "hi 1", "thinking": "hm"}

"""A tool of Open WebUI's own: the engine calls it, Open WebUI runs it, and the engine answers by what it gave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.openwebui.api import Api
from tests.openwebui.browser import Browser
from tests.openwebui.scripted import KINDS, Bench, name_of
from tests.rig.connection import Recorded
from tests.rig.script import DONE, Flavour, Piece, answer, done, finish, line, role, tool, usage

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

TOOL = "soundings"
FUNCTION = "depth_of_harbor"
SOURCE = f'''
class Tools:
    def {FUNCTION}(self, harbor: str) -> str:
        """
        Tells how deep a harbor is.
        :param harbor: The harbor's name.
        """
        return "At " + harbor + " it is 17 fathoms."
'''
HARBOR = "Tōkyō"
GAVE = f"At {HARBOR} it is 17 fathoms."


def calls_then_answers(kind: str, request: Recorded) -> list[Piece]:
    body = request.json()
    said = [message for message in body["messages"] if message["role"] == "tool"]
    flavour: Flavour = "ollama" if kind == "ollama" else "openai"
    if said:
        return answer(flavour, "The tool said: ", str(said[-1]["content"]))
    if kind == "ollama":
        call = line()
        call["message"]["tool_calls"] = [{"function": {"name": FUNCTION, "arguments": {"harbor": HARBOR}}}]
        return ["Let me see. ", call, done(completion=7)]
    text = json.dumps({"harbor": HARBOR}, ensure_ascii=False)
    parts = [tool(0, text[:5], call_id="call_a", name=FUNCTION), tool(0, text[5:12]), tool(0, text[12:])]
    return [role(), "Let me see. ", *parts, finish("tool_calls"), usage(11, 7), DONE]


def names(body: dict[str, Any]) -> set[str]:
    return {one["function"]["name"] for one in body["tools"]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_a_tool_is_called_and_answered_by(
    bench: Bench, bench_browser: Browser, bench_api: Api, connection: str, kind: str
) -> None:
    engine = bench.engines[kind]
    engine.script = lambda request: calls_then_answers(kind, request)
    if TOOL not in {one["id"] for one in await bench_api.get("/api/v1/tools/")}:
        await bench_api.make_tool(TOOL, SOURCE)
    model = f"tooled-{connection}-{kind}"
    await bench_api.make_model(model, name_of(connection, kind), {}, tools=[TOOL])
    try:
        await bench_browser.chat_with(model)
        await bench_browser.do("say", text="How deep is it?")
        seen = await bench_browser.do("told", words=GAVE)
    finally:
        await bench_api.drop_model(model)
    assert f"The tool said: {GAVE}" in seen["whole"]
    assert seen["notices"] == []
    first, second = (request.json() for request in engine.requests)
    assert FUNCTION in names(first)
    assert names(first) == names(second)
    called, gave = second["messages"][-2:]
    assert called["role"] == "assistant"
    (call,) = called["tool_calls"]
    arguments = call["function"]["arguments"]
    assert (arguments if kind == "ollama" else json.loads(arguments)) == {"harbor": HARBOR}
    assert gave["role"] == "tool"
    assert gave["content"] == GAVE
    if kind == "vllm":
        assert gave["tool_call_id"] == call["id"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_a_script_gets_the_call_of_a_tool_of_its_own(
    bench: Bench, bench_api: Api, connection: str, kind: str
) -> None:
    """By Open WebUI's API, which leaves the running to whoever asked."""
    bench.engines[kind].script = lambda request: calls_then_answers(kind, request)
    schema = {"type": "object", "properties": {"harbor": {"type": "string"}}, "required": ["harbor"]}
    offered = {"type": "function", "function": {"name": FUNCTION, "description": "depth", "parameters": schema}}
    answered = await bench_api.ask(name_of(connection, kind), "How deep is it?", tools=[offered])
    (choice,) = answered.json()["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == FUNCTION
    assert json.loads(call["function"]["arguments"]) == {"harbor": HARBOR}
    assert choice["finish_reason"] == "tool_calls"

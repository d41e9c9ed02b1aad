"""OpenAI's client for Python: embeddings, models, responses."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from array import array
from typing import Any

import openai

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.openai_chats import CLIENT, LOOK, SAY_TRUTH, Truth, off, tools_limit
from tests.conformance.table import ALL, row
from tests.rig.answers import ARGUMENTS
from tests.rig.embeddings import close, unit_vector

EMBEDDINGS = "POST /v1/embeddings"
RESPONSES = "POST /v1/responses"
STORED = "/v1/responses/{id}"
TEXTS = ["the sea", "a lamp in the rain", "dust"]
TOOLS: Any = [{"type": "function", "name": "look", "description": "Looks.", "parameters": LOOK, "strict": False}]


def vector_of(b: Bench, vector: Any, text: str) -> None:
    """Checks an embedding of length 1."""
    if b.real:
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-3)
    else:
        assert close(vector, unit_vector(text))


@row(CLIENT, "embeddings.create", EMBEDDINGS)
async def embeddings(b: Bench) -> None:
    answer = await b.openai.embeddings.create(model=b.embedder, input=TEXTS)
    assert [item.index for item in answer.data] == [0, 1, 2]
    for item, text in zip(answer.data, TEXTS, strict=True):
        vector_of(b, item.embedding, text)
    assert answer.usage.prompt_tokens > 0


@row(CLIENT, "embeddings.create(encoding_format='float')", EMBEDDINGS)
async def floats(b: Bench) -> None:
    answer = await b.openai.embeddings.create(model=b.embedder, input="the sea", encoding_format="float")
    vector_of(b, answer.data[0].embedding, "the sea")


@row(CLIENT, "embeddings.create(encoding_format='base64')", EMBEDDINGS)
async def texts(b: Bench) -> None:
    answer = await b.openai.embeddings.create(model=b.embedder, input=["the sea"], encoding_format="base64")
    told: Any = answer.data[0].embedding
    vector_of(b, array("f", base64.b64decode(told)).tolist(), "the sea")


@row(CLIENT, "embeddings.create(input of token ids)", EMBEDDINGS, refused={"ollama"})
async def tokens(b: Bench) -> None:
    answer = await b.openai.embeddings.create(model=b.embedder, input=[[4, 5], [6]])
    assert len(answer.data) == 2


@row(CLIENT, "models.list", "GET /v1/models")
async def models(b: Bench) -> None:
    assert {model.id async for model in b.openai.models.list()} == {b.model, b.embedder}


@row(CLIENT, "models.retrieve", "GET /v1/models/{id}")
async def model(b: Bench) -> None:
    found = await b.openai.models.retrieve(b.model)
    assert (found.id, found.object) == (b.model, "model")


@row(CLIENT, "models.retrieve(an unknown one)", "GET /v1/models/{id}", refused=ALL)
async def unknown_model(b: Bench) -> None:
    await b.openai.models.retrieve("nobody/knows-it")


@row(CLIENT, "models.delete", "DELETE /v1/models/{id}", refused=ALL)
async def delete_model(b: Bench) -> None:
    await b.openai.models.delete(b.model)


@row(CLIENT, "responses.create", RESPONSES)
async def response(b: Bench) -> None:
    for effort in ("medium", "none"):
        answer = await b.openai.responses.create(
            model=b.model, input=PROMPT, temperature=0, reasoning={"effort": effort}
        )
        b.says(answer.output_text)
        thoughts = ["".join(p.text for p in item.summary) for item in answer.output if item.type == "reasoning"]
        b.thinks("".join(thoughts), asked=effort == "medium")
        assert (answer.status, answer.model) == ("completed", b.model)
        assert answer.usage
        assert answer.usage.output_tokens > 0


@row(CLIENT, "responses.create(stream=True)", RESPONSES)
async def response_stream(b: Bench) -> None:
    events = [
        event
        async for event in await b.openai.responses.create(model=b.model, input=PROMPT, temperature=0, stream=True)
    ]
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    b.says("".join(event.delta for event in events if event.type == "response.output_text.delta"))
    assert [event.sequence_number for event in events] == list(range(len(events)))


@row(CLIENT, "responses.create(tools=…)", RESPONSES)
async def response_tools(b: Bench) -> str | None:
    asked: Any = {
        "model": b.model,
        "tools": TOOLS,
        "reasoning": {"effort": "none"},
        "max_output_tokens": 200,
        "temperature": 0,
    }
    answer = await b.openai.responses.create(**asked, input="call:look", tool_choice="required")
    call: Any = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"city":"Oslo"}'}
    if not b.real:
        (call,) = (item.model_dump() for item in answer.output if item.type == "function_call")
        assert call["name"] == "look"
        assert json.loads(call["arguments"]) == ARGUMENTS
    items: Any = [{"role": "user", "content": "call:look"}, call]
    items.append({"type": "function_call_output", "call_id": call["call_id"], "output": PROMPT})
    b.says((await b.openai.responses.create(**asked, input=items)).output_text)
    return tools_limit(b)


@row(CLIENT, "responses.stream", RESPONSES)
async def response_helper(b: Bench) -> None:
    async with b.openai.responses.stream(
        model=b.model, input=PROMPT, temperature=0, reasoning={"effort": "none"}
    ) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds[-1] == "response.completed"
    b.says(final.output_text)


@row(CLIENT, "responses.parse", RESPONSES)
async def response_parse(b: Bench) -> None:
    answer = await b.openai.responses.parse(
        model=b.model, input=SAY_TRUTH, temperature=0, reasoning={"effort": "none"}, text_format=Truth
    )
    assert isinstance(answer.output_parsed, Truth)


@row(CLIENT, "responses.create(previous_response_id=…)", RESPONSES, refused=ALL)
async def response_previous(b: Bench) -> None:
    await b.openai.responses.create(model=b.model, input=PROMPT, temperature=0, previous_response_id="resp_1")


@row(CLIENT, "responses.retrieve", f"GET {STORED}", refused=ALL)
async def response_stored(b: Bench) -> None:
    await b.openai.responses.retrieve("resp_1")


@row(CLIENT, "responses.delete", f"DELETE {STORED}", refused=ALL)
async def response_delete(b: Bench) -> None:
    await b.openai.responses.delete("resp_1")


@row(CLIENT, "responses.cancel", f"POST {STORED}/cancel", refused=ALL)
async def response_cancel(b: Bench) -> None:
    await b.openai.responses.cancel("resp_1")


@row(CLIENT, "responses.compact", f"{RESPONSES}/compact", refused=ALL)
async def response_compact(b: Bench) -> None:
    await b.openai.responses.compact(model=b.model, input=PROMPT)


@row(CLIENT, "responses.input_items.list", f"GET {STORED}/input_items", refused=ALL)
async def response_items(b: Bench) -> None:
    await b.openai.responses.input_items.list("resp_1")


@row(CLIENT, "responses.input_tokens.count", f"{RESPONSES}/input_tokens", refused=ALL)
async def response_tokens(b: Bench) -> None:
    await b.openai.responses.input_tokens.count(model=b.model, input=PROMPT)


@row(CLIENT, "OpenAI (the client that blocks)", "several of these")
async def blocking(b: Bench) -> None:
    def use() -> str:
        with openai.OpenAI(base_url=f"{b.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
            asked = off(b)
            answer = client.chat.completions.create(**asked)
            chunks = client.chat.completions.create(**asked, stream=True)
            text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
            assert b.real or text == answer.choices[0].message.content
            assert client.embeddings.create(model=b.embedder, input="the sea").data
            assert client.models.retrieve(b.model).id == b.model
            assert client.responses.create(model=b.model, input=PROMPT, temperature=0).output_text
            return text

    b.says(await asyncio.to_thread(use))

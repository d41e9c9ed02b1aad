"""Bodies whatever they are said to be: content types, broken JSON, nulls, and the default of streaming."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.reply import refused
from tests.cases.rig import BOTH, OAI, OLL, Bench
from tests.cases.scripts import oai, oll
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORM = "application/x-www-form-urlencoded"
TYPES = {
    "a form's": FORM,
    "none": None,
    "plain text": "text/plain",
    "with a charset": "application/json; charset=utf-8",
    "of another case": "Application/JSON",
    "no type at all": "json",
    "bytes": "application/octet-stream",
    "several parts": "multipart/form-data; boundary=x",
    "empty": "",
}
USER = [{"role": "user", "content": "hi"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/api/chat": {"messages": USER, "stream": False},
    "/api/generate": {"prompt": "hi", "stream": False},
    "/api/show": {},
    "/api/embed": {"input": "hi"},
    "/api/embeddings": {"prompt": "hi"},
    "/v1/chat/completions": {"messages": USER},
    "/v1/completions": {"prompt": "hi"},
    "/v1/embeddings": {"input": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": USER, "max_tokens": 50},
}


@pytest.mark.parametrize("route", ROUTES)
async def test_the_content_type_does_not_matter(bench: Bench, route: str) -> None:
    for name, content_type in TYPES.items():
        for model in BOTH:
            headers = {"content-type": content_type}
            reply = await bench.ask(route, {"model": model, **ROUTES[route]}, headers=headers)
            assert reply.status == 200, (name, reply.status, reply.body)
            assert reply.type == "application/json"
            assert not reply.json().get("error")


BROKEN = {
    "cut short": b'{"model":',
    "empty": b"",
    "blanks": b" \r\n",
    "a list": b"[]",
    "a text": b'"m-oll"',
    "a number": b"7",
    "null": b"null",
    "a form": b"model=m-oll&prompt=hi",
    "two objects": b'{"model":"m-oll"}{"model":"m-oll"}',
    "a comma too many": b'{"model":"m-oll",}',
    "quotes of the wrong kind": b"{'model':'m-oll'}",
    "not a number": b'{"model":"m-oll","options":{"temperature":NaN}}',
    "Latin-1": '{"model":"m-oll","prompt":"é"}'.encode("latin-1"),
    "UTF-16": '{"model":"m-oll"}'.encode("utf-16"),
    "zeros": b"\0" * 16,
    "very deep": b'{"model":"m-oll","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("route", ROUTES)
async def test_what_is_no_json_object_is_refused(bench: Bench, route: str) -> None:
    for broken, body in BROKEN.items():
        for content_type in ("application/json", FORM, None):
            reply = await bench.ask(route, body, headers={"content-type": content_type})
            assert refused(reply, route), (broken, reply.status, reply.type, reply.body)
    assert not bench.oai.requests
    assert not bench.oll.requests


# Nulls -----------------------------------------------------------------------------------------------------------


def strict_oai(request: Recorded) -> list[Piece]:
    body = request.json()
    if nulls := [name for name, value in body.items() if value is None]:
        return [Status(400, {"error": {"message": f"{nulls}: type must be number, but is null", "type": "x"}})]
    return oai(request, "o", "k")


def strict_oll(request: Recorded) -> list[Piece]:
    options = request.json().get("options") or {}
    stop = options.get("stop", [])
    if not isinstance(stop, list) or not all(isinstance(one, str) for one in stop):
        return [Status(400, {"error": 'option "stop" must be of type array'})]
    return oll(request, "o", "k")


async def asked_of_strict(bench: Bench, api: str, model: str, **fields: Any) -> tuple[Any, dict[str, Any]]:
    """The answer, and what the engine got."""
    bench.oai.script, bench.oll.script = strict_oai, strict_oll
    engine = bench.engine(model)
    engine.requests.clear()
    reply = await bench.chat(api, model, **fields)
    assert reply.status == 200, reply.body
    assert reply.content == "ok"
    (request,) = engine.requests
    return reply, request.json()


OPENAI_FIELDS = (
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "tools", "tool_choice", "response_format"),
    *("stream", "stream_options", "user", "n", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs"),
    *("top_logprobs", "parallel_tool_calls", "reasoning_effort", "metadata", "store", "top_k", "min_p", "functions"),
    *("chat_template_kwargs", "service_tier", "modalities", "audio", "prediction", "safety_identifier", "keep_alive"),
)


@pytest.mark.parametrize("model", BOTH)
async def test_nulls_of_openai_clients(bench: Bench, model: str) -> None:
    """All at once, and each alone; a null ``stream`` is none."""
    reply, body = await asked_of_strict(bench, "openai", model, seed=42, **dict.fromkeys(OPENAI_FIELDS))
    assert reply.type == "application/json"
    assert reply.json()["object"] == "chat.completion"
    assert (body if model == OAI else body["options"])["seed"] == 42
    assert None not in body.values()
    assert None not in body.get("options", {}).values()
    for field in OPENAI_FIELDS:
        await asked_of_strict(bench, "openai", model, **{field: None})
    reply, _ = await asked_of_strict(bench, "openai", model, seed=None)
    assert reply.type == "application/json"


OPTIONS = (
    *("temperature", "num_ctx", "stop", "top_k", "top_p", "num_predict", "repeat_penalty", "mirostat", "num_gpu"),
    "nobody_knows_this",
)
OLLAMA_FIELDS = ("format", "tools", "think", "keep_alive", "options", "truncate", "logprobs", "top_logprobs", "shift")


@pytest.mark.parametrize("model", BOTH)
async def test_nulls_of_ollama_clients(bench: Bench, model: str) -> None:
    options = dict.fromkeys(OPTIONS) | {"seed": 42}
    others = {name: None for name in OLLAMA_FIELDS if name != "options"}
    _, body = await asked_of_strict(bench, "ollama", model, stream=False, options=options, **others)
    assert (body if model == OAI else body["options"])["seed"] == 42
    assert None not in body.values()
    assert None not in body.get("options", {}).values()
    for field in OLLAMA_FIELDS:
        reply, _ = await asked_of_strict(bench, "ollama", model, stream=None, **{field: None})
        assert reply.type == "application/x-ndjson"  # Ollama's default
    for option in OPTIONS:
        await asked_of_strict(bench, "ollama", model, stream=False, options={option: None})


async def test_nulls_inside_messages(bench: Bench) -> None:
    message = {"role": "user", "content": "hi", "name": None, "images": None, "tool_calls": None, "thinking": None}
    for api in ("openai", "ollama"):
        for model in BOTH:
            await asked_of_strict(bench, api, model, messages=[message], stream=False)


STOPS = [("END", ["END"]), (["END"], ["END"]), (["A", "B"], ["A", "B"]), ([], []), ("", []), (["é\n", ""], ["é\n"])]


@pytest.mark.parametrize("model", BOTH)
@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_stops_as_a_text_or_a_list(bench: Bench, api: str, model: str) -> None:
    for stop, meant in STOPS:
        how = {"stop": stop} if api == "openai" else {"options": {"stop": stop}, "stream": False}
        _, body = await asked_of_strict(bench, api, model, **how)
        got = (body if model == OAI else body.get("options", {})).get("stop", [])
        assert ([got] if isinstance(got, str) else got) == meant, stop


@pytest.mark.parametrize("api", ["openai", "ollama"])
async def test_stops_of_another_kind_are_refused(bench: Bench, api: str) -> None:
    for stop in (7, True, {"a": 1}, [7], [None], [["END"]]):
        how = {"stop": stop} if api == "openai" else {"options": {"stop": stop}}
        reply = await bench.chat(api, OLL, **how)
        assert refused(reply, "/api/chat" if api == "ollama" else "/v1/chat/completions"), (stop, reply.body)
    assert not bench.oll.requests


# The default of streaming ----------------------------------------------------------------------------------------

ACCEPTS = (None, "text/event-stream", "application/x-ndjson", "application/json", "text/html, */*;q=0.1")
ONE_OBJECT = {"/v1/chat/completions": "chat.completion", "/v1/completions": "text_completion"}


@pytest.mark.parametrize("stream", [..., None, True, False])
@pytest.mark.parametrize("route", [*ONE_OBJECT, "/api/chat", "/api/generate"])
async def test_who_does_not_say_gets_what_the_dialect_gives(bench: Bench, route: str, stream: Any) -> None:
    """OpenAI: one object. Ollama: a stream. What the client accepts changes nothing."""
    for model in BOTH:
        body = {"model": model, **ROUTES[route], "stream": stream}
        body = {name: value for name, value in body.items() if value is not ...}
        for accept in ACCEPTS:
            reply = await bench.ask(route, body, headers={"accept": accept})
            assert reply.status == 200
            if route in ONE_OBJECT and stream is True:
                assert reply.type == "text/event-stream"
                assert reply.frames()[-1] == "[DONE]"
            elif route in ONE_OBJECT:
                assert reply.type == "application/json"
                assert reply.json()["object"] == ONE_OBJECT[route]
            elif stream is False:
                assert reply.type == "application/json"
                assert reply.json()["done"] is True
            else:
                ends = [told["done"] for told in reply.lines()]
                assert len(ends) >= 2
                assert ends == [False] * (len(ends) - 1) + [True]

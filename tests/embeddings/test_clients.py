"""Embeddings through both APIs, with the official clients, in front of every kind of back end."""

from __future__ import annotations

import base64
import math
from array import array

import httpx
import ollama
import openai
import pytest

from buffer.backend import Kind
from tests.embeddings.rig import KINDS, MODEL, house
from tests.rig.embeddings import close, raw_vector, unit_vector

TEXTS = ["the sea", "a lamp in the rain", "dust"]


@pytest.mark.parametrize("kind", KINDS)
async def test_openai_s_client(kind: Kind) -> None:
    async with house(kind) as h, openai.AsyncOpenAI(base_url=f"{h.url}/v1", api_key="none", max_retries=0) as client:
        answer = await client.embeddings.create(model=MODEL, input=TEXTS)
        assert (answer.object, answer.model) == ("list", MODEL)
        assert [item.index for item in answer.data] == [0, 1, 2]
        for item, text in zip(answer.data, TEXTS, strict=True):
            assert close(item.embedding, unit_vector(text))
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (8, 8)
        alone = await client.embeddings.create(model=MODEL, input="the sea", encoding_format="float")
        assert close(alone.data[0].embedding, unit_vector("the sea"))
        shorter = await client.embeddings.create(model=MODEL, input=["the sea"], dimensions=5)
        assert close(shorter.data[0].embedding, unit_vector("the sea", 5))
        with pytest.raises(openai.NotFoundError) as refused:
            await client.embeddings.create(model="no-such-model", input="x")
        assert refused.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError):
            await client.embeddings.create(model=MODEL, input="some poison")
        await h.quiet()


@pytest.mark.parametrize("kind", KINDS)
async def test_base64_is_little_endian_float32(kind: Kind) -> None:
    async with house(kind) as h, openai.AsyncOpenAI(base_url=f"{h.url}/v1", api_key="none", max_retries=0) as client:
        answer = await client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="base64")
        for item, text in zip(answer.data, TEXTS, strict=True):
            assert isinstance(item.embedding, str)
            assert close(array("f", base64.b64decode(item.embedding)), unit_vector(text))


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "openai"])
async def test_token_ids(kind: Kind) -> None:
    async with house(kind) as h:
        for asked, seen in (([1, 2, 3], ["[1, 2, 3]"]), ([[4, 5], [6]], ["[4, 5]", "[6]"])):
            answer = (await h.embed(asked, "/v1/embeddings")).json()
            for item, text in zip(answer["data"], seen, strict=True):
                assert close(item["embedding"], unit_vector(text))


async def test_token_ids_are_nothing_for_ollama() -> None:
    async with house("ollama") as h:
        answer = await h.embed([1, 2], "/v1/embeddings")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")


@pytest.mark.parametrize("kind", KINDS)
async def test_ollama_s_client(kind: Kind) -> None:
    async with house(kind) as h:
        client = ollama.AsyncClient(h.url)
        answer = await client.embed(MODEL, TEXTS, keep_alive="5m", options={"num_ctx": 512})
        assert answer.model == MODEL
        for vector, text in zip(answer.embeddings, TEXTS, strict=True):
            assert close(vector, unit_vector(text))
        assert answer.prompt_eval_count == 8
        assert answer.total_duration
        assert answer.load_duration
        shorter = await client.embed(MODEL, "the sea", dimensions=4)
        assert close(shorter.embeddings[0], unit_vector("the sea", 4))
        assert math.isclose(math.hypot(*shorter.embeddings[0]), 1, abs_tol=1e-6)
        assert (await client.embed(MODEL, "")).embeddings == []
        assert (await client.embed(MODEL, [])).embeddings == []
        older = await client.embeddings(MODEL, "the sea")
        # A server that speaks OpenAI's API and no more has no way to be asked for vectors as they are.
        wanted = unit_vector("the sea") if kind == "openai" else raw_vector("the sea")
        assert close(older.embedding, wanted)
        assert (await client.embeddings(MODEL, "")).embedding == []
        for ask in (client.embed, client.embeddings):
            with pytest.raises(ollama.ResponseError) as refused:
                await ask("no-such-model", "x")
            assert refused.value.status_code == 404
            assert refused.value.error == 'model "no-such-model" not found, try pulling it first'
            with pytest.raises(ollama.ResponseError) as refused:
                await ask(MODEL, "some poison")
            assert refused.value.status_code == 400
        await h.quiet()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_input_that_is_too_long(kind: Kind) -> None:
    async with house(kind) as h:
        refused = await h.embed("long " * 5, truncate=False)
        assert (refused.status_code, refused.json()) == (400, {"error": "the input length exceeds the context length"})
        if kind in ("vllm", "ollama"):
            assert (await h.embed("long " * 5)).status_code == 200
        else:
            # Cut here, until what the engine objects to is no longer in it.
            assert (await h.embed("some words and then long")).status_code == 200
            assert [call for call in h.engine.embeddings.calls if len(call[0]) < 20]
        if kind != "ollama":
            refused = await h.embed("long", "/v1/embeddings")
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/embeddings", {"input": "x"}, "model"),
        ("/v1/embeddings", {"model": MODEL}, "'input'"),
        ("/v1/embeddings", {"model": MODEL, "input": ""}, "empty"),
        ("/v1/embeddings", {"model": MODEL, "input": []}, "empty"),
        ("/v1/embeddings", {"model": MODEL, "input": ["x", ""]}, "empty"),
        ("/v1/embeddings", {"model": MODEL, "input": ["x", 1]}, "token ids"),
        ("/v1/embeddings", {"model": MODEL, "input": [True]}, "token ids"),
        ("/v1/embeddings", {"model": MODEL, "input": {"a": 1}}, "token ids"),
        ("/v1/embeddings", {"model": MODEL, "input": [-1]}, "token ids"),
        ("/v1/embeddings", {"model": MODEL, "input": ["x"] * 2049}, "2048"),
        ("/v1/embeddings", {"model": MODEL, "input": "x", "encoding_format": "int8"}, "base64"),
        ("/v1/embeddings", {"model": MODEL, "input": "x", "dimensions": 0}, "dimensions"),
        ("/api/embed", {"input": "x"}, "model is required"),
        ("/api/embed", {"model": MODEL, "input": 5}, "invalid input type"),
        ("/api/embed", {"model": MODEL, "input": ["x", 5]}, "invalid input type"),
        ("/api/embed", {"model": MODEL, "input": ["x"] * 8193}, "8192"),
        ("/api/embeddings", {"prompt": "x"}, "model is required"),
        ("/api/embeddings", {"model": MODEL, "prompt": ["x"]}, "prompt"),
    ],
)
async def test_what_is_refused_at_the_door(path: str, body: object, words: str) -> None:
    async with house("vllm") as h:
        answer = await h.client.post(path, json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert words in (error if isinstance(error, str) else error["message"])
        assert not h.engine.embeddings.calls
        api = "openai" if path.startswith("/v1") else "ollama"
        assert h.metric(f'requests_total{{api="{api}",lane="none",outcome="client_error"}}') == 1


async def test_headers_and_metrics() -> None:
    async with house("llamacpp") as h:
        answer = await h.embed(["one two", "three"])
        assert answer.headers["x-doublebuffer-backend"] == "llamacpp0"
        assert len(answer.headers["x-doublebuffer-id"]) == 32
        assert h.metric('requests_total{api="ollama",lane="none",outcome="ok"}') == 1
        assert h.metric('tokens_total{direction="prompt"}') == 3
        assert h.metric('attempts_total{backend="llamacpp0",result="ok"}') == 1
        async with httpx.AsyncClient(base_url=h.url) as client:
            assert 'doublebuffer_queue_depth{lane="none"} 0.0' in (await client.get("/metrics")).text


async def test_what_an_engine_is_asked() -> None:
    asked = {}
    for kind in KINDS:
        async with house(kind) as h:
            await h.embed("x", dimensions=3, options={"num_ctx": 99, "mode": "fast"}, keep_alive=5)
            asked[kind] = h.engine.embeddings.requests[0].json()
    assert asked["vllm"] == {
        "model": MODEL,
        "input": ["x"],
        "encoding_format": "base64",
        "truncate_prompt_tokens": -1,
        "truncation_side": "right",
    }
    assert asked["llamacpp"] == {"model": MODEL, "input": ["x"], "encoding_format": "base64"}
    assert asked["openai"] == {"model": MODEL, "input": ["x"], "encoding_format": "float"}
    assert asked["ollama"] == {
        "model": MODEL,
        "input": ["x"],
        "truncate": True,
        "keep_alive": 5,
        "options": {"num_ctx": 99},
    }

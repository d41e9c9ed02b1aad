"""Prompts through gateway, store, worker and engines of each kind, by the official clients."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import ollama
import openai
import pytest

from buffer.backend import BackendSpec, Kind
from buffer.settings import Settings
from buffer.store import open_store
from gateway.app import create_app
from tests.gateway.rig import Wire, chunks, lines, served, until
from tests.gateway.test_end_to_end import MODELS, house
from tests.rig.engine import expected
from tests.rig.llama import LlamaServer
from tests.rig.script import HOLD, Status
from tests.rig.text import completion_line, generated_line
from tests.simulate.serving import served as simulated
from worker.runner import Worker

PROMPT = "marker:abc words:4 thoughts:2"
KINDS = pytest.mark.parametrize("kind", MODELS)


@asynccontextmanager
async def behind(url: str, kind: Kind) -> AsyncIterator[str]:
    """The address of a gateway, with a worker, in front of a server that is there already."""
    async with AsyncExitStack() as stack:
        store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
        stack.push_async_callback(store.aclose)
        settings = Settings(backends=[BackendSpec(name="b", kind=kind, url=url)])
        stop = asyncio.Event()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(Worker(settings, store).run(stop))
        stack.callback(stop.set)
        yield f"http://127.0.0.1:{await stack.enter_async_context(served(create_app(settings, store)))}"


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


@KINDS
async def test_generate_by_ollamas_client(kind: Kind) -> None:
    async with house(kind) as h:
        client, engine = ollama.AsyncClient(h.url), h.engines[kind]
        for think in (True, False):
            whole = await client.generate(MODELS[kind], PROMPT, system="Be brief.", think=think)
            assert whole.response == expected(PROMPT)
            assert bool(whole.thinking) is think
            assert list(whole.context or ()) == []
            parts = [part async for part in await client.generate(MODELS[kind], PROMPT, think=think, stream=True)]
            assert "".join(part.response or "" for part in parts) == expected(PROMPT)
            assert bool("".join(part.thinking or "" for part in parts)) is think
            assert parts[-1].done
        assert {r.path for r in engine.requests} == {"/api/chat" if kind == "ollama" else "/v1/chat/completions"}
        assert engine.requests[0].json()["messages"][0] == {"role": "system", "content": "Be brief."}
        await h.quiet()


@KINDS
@pytest.mark.parametrize("suffix", ["", "the end"])
async def test_literal_prompts_by_ollamas_client(kind: Kind, suffix: str) -> None:
    how: dict[str, Any] = {"suffix": suffix} if suffix else {"raw": True}
    async with house(kind) as h:
        client, engine = ollama.AsyncClient(h.url), h.engines[kind]
        whole = await client.generate(MODELS[kind], PROMPT, **how)
        assert whole.response == expected(PROMPT)
        assert (whole.eval_count, whole.done_reason) == (5, "stop")
        parts = [part async for part in await client.generate(MODELS[kind], PROMPT, stream=True, **how)]
        assert "".join(part.response or "" for part in parts) == expected(PROMPT)
        paths: dict[str, str] = {"ollama": "/api/generate"} | ({"llamacpp": "/infill"} if suffix else {})
        assert {request.path for request in engine.requests} == {paths.get(kind, "/v1/completions")}
        await h.quiet()


@KINDS
async def test_completions_by_openais_client(kind: Kind) -> None:
    async with house(kind) as h, ours(h.url) as client:
        answer = await client.completions.create(model=MODELS[kind], prompt=PROMPT)
        assert answer.object == "text_completion"
        assert answer.model == MODELS[kind]
        assert answer.choices[0].text == expected(PROMPT)
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 5)

        prompts = [f"marker:p{i} words:{i}" for i in range(3)]
        several = await client.completions.create(model=MODELS[kind], prompt=prompts, n=2, echo=True)
        assert [choice.text for choice in several.choices] == [p + expected(p) for p in prompts for _ in range(2)]
        assert several.usage is not None
        assert several.usage.completion_tokens == 2 * (1 + 2 + 3)

        stream = await client.completions.create(
            model=MODELS[kind], prompt=prompts, stream=True, stream_options={"include_usage": True}
        )
        texts, reasons, counted = ["", "", ""], ["", "", ""], None
        async for chunk in stream:
            counted = chunk.usage or counted
            for choice in chunk.choices:
                texts[choice.index] += choice.text
                reasons[choice.index] += choice.finish_reason or ""
        assert texts == [expected(p) for p in prompts]
        assert reasons == ["stop"] * 3
        assert counted is not None
        assert counted.total_tokens == 6 + 6
        short = await client.completions.create(model=MODELS[kind], prompt="words:40")
        assert short.choices[0].finish_reason == "length"
        await h.quiet()


@KINDS
async def test_token_ids_where_an_engine_takes_them(kind: Kind) -> None:
    async with house(kind) as h, ours(h.url) as client:
        if kind == "ollama":
            with pytest.raises(openai.BadRequestError) as refused:
                await client.completions.create(model=MODELS[kind], prompt=[1, 2, 3])
            assert "token ids" in refused.value.message
            assert h.engines[kind].requests == []
        else:
            answer = await client.completions.create(model=MODELS[kind], prompt=[[1, 2, 3], [4]])
            assert [choice.text for choice in answer.choices] == [expected("")] * 2
            # They are jobs of their own, and may be taken at different times by different hands.
            assert sorted(r.json()["prompt"] for r in h.engines[kind].requests) == [[1, 2, 3], [4]]
        await h.quiet()


@pytest.mark.parametrize("kind", [kind for kind in MODELS if kind != "ollama"])
async def test_loading_and_unloading_asks_no_engine_but_ollama(kind: Kind) -> None:
    async with house(kind) as h:
        h.engines[kind].script = [HOLD]
        busy = await Wire.post(h.port, "/api/generate", {"model": MODELS[kind], "prompt": "x"})
        await h.engines[kind].received()
        client = ollama.AsyncClient(h.url)
        async with asyncio.timeout(2):
            for keep_alive, reason in ((None, "load"), (0, "unload")):
                answer = await client.generate(MODELS[kind], keep_alive=keep_alive)
                assert (answer.response, answer.done_reason) == ("", reason)
        assert len(h.engines[kind].requests) == 1
        await busy.leave()
        await h.quiet()


@pytest.mark.parametrize("path", ["/api/generate", "/v1/completions"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["vllm", "ollama"])
async def test_the_engine_is_left_when_the_client_leaves(path: str, stream: bool, kind: Kind) -> None:
    async with house(kind) as h:
        word = generated_line("Hel") if kind == "ollama" else completion_line("Hel")
        h.engines[kind].script = [word, HOLD]
        body: dict[str, Any] = {"model": MODELS[kind], "prompt": "x", "raw": True, "stream": stream}
        if path == "/v1/completions":
            body["prompt"] = ["x", "y"]
        wire = await Wire.post(h.port, path, body)
        count = 2 if path == "/v1/completions" else 1
        await h.engines[kind].received(count)
        if stream:
            await wire.until(b"Hel")
        await wire.leave()

        async def left() -> bool:
            return all(asked.peer_closed_at is not None for asked in h.engines[kind].requests)

        async with asyncio.timeout(1):
            await until(left)
        await h.quiet()


async def test_an_engine_that_refuses() -> None:
    async with house("vllm") as h, ours(h.url) as client:
        told = {"error": {"message": "suffix is not currently supported", "code": 400}}
        h.engines["vllm"].script = [Status(400, told)]
        with pytest.raises(openai.BadRequestError) as refused:
            await client.completions.create(model=MODELS["vllm"], prompt="x", suffix="y")
        assert "suffix is not currently supported" in refused.value.message
        h.engines["vllm"].script = [Status(501, told)]
        with pytest.raises(ollama.ResponseError) as unable:
            await ollama.AsyncClient(h.url).generate(MODELS["vllm"], "x", suffix="y")
        assert unable.value.status_code == 400
        # What a model cannot do is held against nobody, and not asked twice.
        assert len(h.engines["vllm"].requests) == 2
        await h.quiet()


async def test_an_engine_that_fails_before_the_first_word_is_tried_again() -> None:
    async with house("llamacpp") as h, ours(h.url) as client:
        h.engines["llamacpp"].once = [[Status(500, "no")]]
        answer = await client.completions.create(model=MODELS["llamacpp"], prompt="words:2", echo=True)
        assert answer.choices[0].text == "words:2ok 1 2"
        assert len(h.engines["llamacpp"].requests) == 2
        await h.quiet()


async def test_many_prompts_take_no_more_of_an_engine_than_it_has() -> None:
    async with house("llamacpp") as h, ours(h.url) as client:
        h.engines["llamacpp"].engine.delay_s = 0.01
        prompts = [f"marker:m{i} words:2" for i in range(24)]
        answer = await client.completions.create(model=MODELS["llamacpp"], prompt=prompts)
        assert [choice.text for choice in answer.choices] == [expected(p) for p in prompts]
        assert h.engines["llamacpp"].most_running <= 4
        await h.quiet()


async def test_the_real_llama_server(llama_server: LlamaServer) -> None:
    model, greedy = llama_server.model, {"temperature": 0.0, "max_tokens": 12}
    async with httpx.AsyncClient(base_url=llama_server.url, timeout=30) as client:
        asked = {"model": model, "prompt": "The quiet", "min_p": 0, **greedy}
        told = (await client.post("/v1/completions", json=asked)).json()
    direct, reason, count = told["choices"][0]["text"], told["choices"][0]["finish_reason"], told["usage"]
    assert direct
    async with behind(llama_server.url, "llamacpp") as url, ours(url) as client:
        answer = await client.completions.create(model=model, prompt="The quiet", temperature=0, max_tokens=12)
        assert answer.choices[0].text == direct
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, count["completion_tokens"])
        assert answer.choices[0].finish_reason == reason
        unbounded = await client.completions.create(model=model, prompt="The quiet", extra_body={"ignore_eos": True})
        assert unbounded.usage is not None
        assert unbounded.usage.completion_tokens == 16

        prompts = ["The quiet", "The old sailor", "The quiet"]
        stream = await client.completions.create(
            model=model, prompt=prompts, n=2, temperature=0, max_tokens=12, echo=True, logprobs=2, stream=True
        )
        texts, tokens = [""] * 6, [""] * 6
        async for chunk in stream:
            for choice in chunk.choices:
                texts[choice.index] += choice.text
                if choice.logprobs:
                    tokens[choice.index] += "".join(choice.logprobs.tokens or ())
        assert texts[0] == texts[1] == texts[4] == texts[5] == "The quiet" + direct
        assert texts[2].startswith("The old sailor")
        assert [text.removeprefix(prompts[i // 2]) for i, text in enumerate(texts)] == tokens

        theirs = ollama.AsyncClient(url)
        options: Any = {"temperature": 0, "num_predict": 12}
        raw = await theirs.generate(model, "The quiet", raw=True, options=options)
        assert raw.response == direct
        assert raw.context is None
        parts = [p async for p in await theirs.generate(model, "The quiet", raw=True, options=options, stream=True)]
        assert "".join(part.response or "" for part in parts) == direct
        assert len(parts) > 3
        assert (parts[-1].done_reason, parts[-1].eval_count) == (reason, count["completion_tokens"])
        thinks = await theirs.generate(model, "Tell me about the sea.", think=True, options={"temperature": 0})
        assert thinks.thinking
        assert thinks.response
        assert "think>" not in thinks.response
        with pytest.raises(ollama.ResponseError) as refused:
            await theirs.generate(model, "The quiet", suffix="harbor")
        assert refused.value.status_code == 400
        assert "not supported" in refused.value.error


@pytest.mark.parametrize(("profile", "kind"), [("rtx4090-vllm", "vllm"), ("rtx4090-ollama", "ollama")])
async def test_the_simulated_engine(profile: str, kind: Kind) -> None:
    model = "simulated-qwen3:14b"
    async with simulated(profile) as engine, behind(engine, kind) as url, ours(url) as client:
        answer = await client.completions.create(model=model, prompt=["Once", "Twice"], max_tokens=20)
        assert all(choice.text.startswith("This answer is simulated") for choice in answer.choices)
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 40
        raw = await ollama.AsyncClient(url).generate(model, "Once", raw=True, stream=False)
        assert (raw.response or "").startswith("This answer is simulated")
        assert raw.done_reason == "stop"


async def test_curl_sees_one_answer_and_one_end() -> None:
    async with house("vllm") as h, httpx.AsyncClient(base_url=h.url, timeout=10) as client:
        form = {"content-type": "application/x-www-form-urlencoded"}
        body = f'{{"model": "{MODELS["vllm"]}", "prompt": "words:2", "raw": true}}'
        got = await client.post("/api/generate", content=body, headers=form)
        assert [line["done"] for line in lines(got.text)] == [False, False, False, True]
        got = await client.post("/v1/completions", content=body[:-1] + ', "stream": true}', headers=form)
        assert [c["choices"][0]["finish_reason"] for c in chunks(got.text)] == [None, None, None, "stop"]
        await h.quiet()

"""Answers to literal prompts, from each kind of engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from buffer.backend import Kind
from buffer.job import Chat, Content, Finish, Logprobs, Reasoning, Usage
from tests.backends.rig import KINDS, Outcome, backend, run, scripted
from tests.rig.engine import expected
from tests.rig.llama import LlamaServer
from tests.rig.script import CUT, DONE, RST, Status
from tests.rig.text import completion_line, generated_done, generated_line

PATHS: dict[Kind, str] = {
    "vllm": "/v1/completions",
    "llamacpp": "/v1/completions",
    "openai": "/v1/completions",
    "ollama": "/api/generate",
}


def text(prompt: str = "x", **fields: Any) -> Chat:
    return Chat("m", [], prompt=prompt, **fields)


async def ask(server: LlamaServer, prompt: str = "The quiet", **fields: Any) -> Outcome:
    async with backend(server.url, "llamacpp") as of:
        return await run(of, text(prompt, **fields), model=server.model)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [None, "the end"])
async def test_each_kind(kind: Kind, suffix: str | None) -> None:
    prompt = "marker:abc words:4"
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, text(prompt, suffix=suffix, front="ollama"))
        path = "/infill" if kind == "llamacpp" and suffix else PATHS[kind]
        assert [request.path for request in engine.requests] == [path]
    assert outcome.error is None
    assert outcome.said == expected(prompt)
    assert [event for event in outcome.events if isinstance(event, Finish)] == [Finish("stop")]
    counts = [event for event in outcome.events if isinstance(event, Usage)][-1]
    assert (counts.prompt, counts.completion) == (2 if suffix is None else 4, 5)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_completion_without_a_bound_has_sixteen_tokens(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, text("words:40"))
    assert outcome.said == "ok" + "".join(f" {i}" for i in range(1, 16))
    assert Finish("length") in outcome.events


@pytest.mark.parametrize("kind", KINDS)
async def test_echo_and_several_answers(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, text("words:2", n=3, extra={"echo": Raw(b"true")}))
    for index in range(3):
        said = "".join(e.text for e in outcome.events if isinstance(e, Content) and e.index == index)
        assert said == "words:2ok 1 2"
    assert len([event for event in outcome.events if isinstance(event, Finish)]) == 3


@pytest.mark.parametrize("kind", KINDS)
async def test_no_word_is_echoed_before_the_engine_says_one(kind: Kind) -> None:
    """So that the job can be tried again elsewhere."""
    async with scripted(kind, [Status(500, "no")]) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, text(extra={"echo": Raw(b"true")}))
    assert (outcome.kind, outcome.events) == ("failed", [])


@pytest.mark.parametrize("kind", ["llamacpp", "ollama"])
async def test_no_tokens_but_the_prompt(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, text("words:2", max_tokens=0, extra={"echo": Raw(b"true")}))
    assert outcome.said == "words:2"
    assert Finish("length") in outcome.events


async def test_tags_in_a_literal_prompts_answer_are_text() -> None:
    pieces = [*map(completion_line, ("<think>", "a</think>", "b")), completion_line("", "stop"), DONE]
    async with scripted("vllm", pieces) as engine, backend(engine.url, "vllm") as of:
        outcome = await run(of, text(), model="Qwen/Qwen3-8B")
    assert (outcome.said, outcome.thought) == ("<think>a</think>b", "")


@pytest.mark.parametrize("front", ["openai", "ollama"])
async def test_what_ollama_takes_for_thinking(front: Any) -> None:
    lines = [generated_line("", thinking="hm"), generated_line("yes"), generated_done()]
    async with scripted("ollama", lines) as engine, backend(engine.url, "ollama") as of:
        outcome = await run(of, text(front=front))
    found = [event for event in outcome.events if isinstance(event, Content | Reasoning)]
    assert found == [Content("hm") if front == "openai" else Reasoning("hm"), Content("yes")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", [CUT, RST])
async def test_an_answer_that_breaks_off(kind: Kind, end: Any) -> None:
    piece = generated_line("a") if kind == "ollama" else completion_line("a")
    async with scripted(kind, [piece, end]) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, text())
    assert (outcome.kind, outcome.said) == ("broken", "a")


async def test_infill_that_ends_with_an_error() -> None:
    pieces = [b'data: {"index":0,"content":"a","stop":false}\n\n', b'data: {"error":{"message":"no","code":500}}\n\n']
    async with scripted("llamacpp", pieces) as engine, backend(engine.url, "llamacpp") as of:
        outcome = await run(of, text(suffix="x"))
    assert (outcome.kind, outcome.said) == ("broken", "a")


async def test_probabilities_in_the_older_form() -> None:
    logprobs = {
        "tokens": ["On", "ce"],
        "token_logprobs": [None, -0.5],
        "top_logprobs": [None, {"ce": -0.5, "ly": -1.5}],
        "text_offset": [0, 2],
    }
    script = [completion_line("Once", logprobs=logprobs), completion_line("", "stop"), DONE]
    async with scripted("vllm", script) as engine, backend(engine.url, "vllm") as of:
        outcome = await run(of, text(logprobs=True))
    (told,) = [event for event in outcome.events if isinstance(event, Logprobs)]
    assert json.loads(told.json) == [
        {"token": "On", "logprob": None, "bytes": None, "top_logprobs": []},
        {
            "token": "ce",
            "logprob": -0.5,
            "bytes": None,
            "top_logprobs": [
                {"token": "ce", "logprob": -0.5, "bytes": None},
                {"token": "ly", "logprob": -1.5, "bytes": None},
            ],
        },
    ]


async def test_llama_goes_on_from_the_prompt(llama_server: LlamaServer) -> None:
    # By chance, it says nothing more after a word or two.
    outcome = await ask(llama_server, max_tokens=5, extra={"ignore_eos": Raw(b"true")})
    assert outcome.error is None
    assert outcome.said
    assert outcome.events[-2] == Finish("length")
    counts = outcome.events[-1]
    assert isinstance(counts, Usage)
    assert (counts.prompt, counts.completion) == (2, 5)
    assert counts.completion_ns


async def test_llama_takes_token_ids_many_stops_and_a_form(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, "", prompt_tokens=[1, 2, 3], max_tokens=2, stop=["zzz"] * 6)
    assert outcome.error is None
    choice = await ask(llama_server, extra={"guided_choice": Raw(b'["yes","no"]')})
    assert choice.said in ("yes", "no")


async def test_llama_several_answers_with_probabilities_and_echo(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, n=2, max_tokens=3, logprobs=True, top_logprobs=2, extra={"echo": Raw(b"true")})
    assert outcome.error is None
    for index in range(2):
        said = "".join(e.text for e in outcome.events if isinstance(e, Content) and e.index == index)
        assert said.startswith("The quiet")
        tokens = [
            entry
            for e in outcome.events
            if isinstance(e, Logprobs) and e.index == index
            for entry in json.loads(e.json)
        ]
        assert "".join(entry["token"] for entry in tokens) == said.removeprefix("The quiet")
        assert all(len(entry["top_logprobs"]) == 2 for entry in tokens)


async def test_llama_cannot_fill_in_with_this_model(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, suffix=" end")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.status) == ("client", 400)
    assert "Infill is not supported" in outcome.error.message


async def test_llama_prompt_that_is_too_long(llama_server: LlamaServer) -> None:
    outcome = await ask(llama_server, "the quiet harbor " * 600, front="ollama")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("client", "context_length_exceeded")
    assert outcome.error.param == "prompt"

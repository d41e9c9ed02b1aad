"""Answers that another attempt began: what engines are asked, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from buffer.backend import Kind
from buffer.heard import Said
from buffer.job import Chat, Content, Finish, Message, Sampling, Usage
from tests.backends.rig import Outcome, backend, chat, ending, run, scripted
from tests.rig.script import DONE, RST, Piece, Status, done, finish, line, reasoning, role, usage

GOING_ON: list[Kind] = ["vllm", "llamacpp", "ollama"]


async def go_on(
    kind: Kind, said: Said, asked: Any = None, *, spent: int = 1, script: Any = None, model: str = "up", **fields: Any
) -> tuple[Outcome, dict[str, Any]]:
    """What came, and the body that the engine was sent."""
    script = script or [*(["x"] if kind == "ollama" else [role(), "x"]), *ending(kind)]
    async with scripted(kind, script) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, asked or chat("hi", **fields), said=said, spent=spent, model=model)
        assert len(engine.requests) == 1
        return outcome, engine.requests[0].json()


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "ollama", "openai"])
async def test_who_can(kind: Kind) -> None:
    async with backend("http://127.0.0.1:9", kind) as of:
        assert of.continues == (kind != "openai")


@pytest.mark.parametrize("kind", GOING_ON)
async def test_what_was_said_is_the_beginning(kind: Kind) -> None:
    outcome, body = await go_on(kind, Said("Once upon"))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert body["messages"][-1]["content"] == "Once upon"
    assert (body.get("continue_final_message"), body.get("add_generation_prompt")) == (
        (True, False) if kind == "vllm" else (None, None)
    )
    off = body["think"] is False if kind == "ollama" else body["chat_template_kwargs"]["enable_thinking"] is False
    assert off, "nothing was thought, so nothing is to be thought now"
    assert outcome.events[:-1] == [Content("x"), Finish("stop")]


@pytest.mark.parametrize("kind", GOING_ON)
async def test_what_was_thought_goes_along(kind: Kind) -> None:
    _, body = await go_on(kind, Said("Once", "Let me see.\n"), think="on", model="qwen3-8b")
    names = ("thinking",) if kind == "ollama" else ("reasoning", "reasoning_content")
    assert [body["messages"][-1][name] for name in names] == ["Let me see."] * len(names)
    on = body["think"] if kind == "ollama" else body["chat_template_kwargs"]["enable_thinking"]
    assert on == (kind != "llamacpp"), "older llama.cpp refuses a beginning with thinking on"


async def test_the_sampling_of_the_beginning_holds() -> None:
    for think, temperature in (("on", 0.6), ("off", 0.7), ("unset", 0.6)):
        _, body = await go_on("llamacpp", Said("Once", "Hm."), think=think, model="qwen3-8b")
        assert body["temperature"] == temperature
    _, body = await go_on("vllm", Said("Once"), model="qwen3-8b", sampling=Sampling(temperature=0.1))
    assert body["temperature"] == 0.1


@pytest.mark.parametrize("kind", GOING_ON)
async def test_thinking_that_comes_all_the_same_is_the_answer(kind: Kind) -> None:
    """A parser that waits for a closing tag takes the rest of the words for thinking."""
    more = line(thinking=" a time") if kind == "ollama" else reasoning(" a time")
    outcome, _ = await go_on(kind, Said("Once upon"), script=[more, *ending(kind)], think="on")
    assert (outcome.said, outcome.thought) == (" a time", "")


@pytest.mark.parametrize("kind", GOING_ON)
async def test_tokens_that_were_spent_are_not_there_any_more(kind: Kind) -> None:
    _, body = await go_on(kind, Said("Once upon"), spent=7, max_tokens=20)
    assert (body["options"]["num_predict"] if kind == "ollama" else body["max_tokens"]) == 13
    _, body = await go_on("vllm", Said("Once"), spent=7, extra={"min_tokens": Raw(b"9")})
    assert body["min_tokens"] == 2
    _, body = await go_on("vllm", Said("Once"), spent=70, extra={"min_tokens": Raw(b"9")})
    assert body["min_tokens"] == 0


@pytest.mark.parametrize("kind", GOING_ON)
async def test_with_none_left_nobody_is_asked(kind: Kind) -> None:
    async with scripted(kind, []) as engine, backend(engine.url, kind) as of:
        outcome = await run(of, chat("hi", max_tokens=5), said=Said("Once upon"), spent=5)
        assert outcome.events == [Finish("length")]
        outcome = await run(of, Chat("m", [], prompt="Say:"), said=Said("Once upon"), spent=16)
        assert outcome.events == [Finish("length")], "a completion's own bound"
        assert engine.requests == []


@pytest.mark.parametrize("kind", GOING_ON)
async def test_a_beginning_that_the_client_gave_grows(kind: Kind) -> None:
    asked = chat("hi")
    asked.messages.append(Message("assistant", "Once"))
    _, body = await go_on(kind, Said(" upon a"), asked)
    assert [message["content"] for message in body["messages"]] == ["hi", "Once upon a"]


@pytest.mark.parametrize("kind", GOING_ON)
async def test_a_literal_prompt_grows(kind: Kind) -> None:
    script: list[Piece] = (
        [{"response": "x", "done": False}, done()]
        if kind == "ollama"
        else [
            {"choices": [{"index": 0, "text": "x"}]},
            {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        ]
    )
    outcome, body = await go_on(kind, Said(" Once \n"), Chat("m", [], prompt="Say:"), spent=3, script=script)
    assert body["prompt"] == "Say: Once \n", "no template stands around it that could cut the blanks off"
    assert (body["options"]["num_predict"] if kind == "ollama" else body["max_tokens"]) == 13
    assert outcome.said == "x"


SEAMS = [
    ("Hi.\n\n", ["\n\n", "There"], "There"),
    ("Hi.\n\n", ["\n", "\n", "There"], "There"),
    ("Hi.\n\n", ["\n\n There"], " There"),
    ("Hi.\n\n", ["There"], "There"),
    ("Hi. ", [" ", "\n- a"], "\n- a"),
    ("Hi.", ["\n\n", "There"], "\n\nThere"),
    ("Hi", [" there ", "  x"], " there   x"),
    ("def f():\n    ", ["\n  ", "  return"], "return"),
    (" \n", [" ", "\nHi"], "Hi"),
]


@pytest.mark.parametrize("kind", GOING_ON)
@pytest.mark.parametrize(("said", "more", "new"), SEAMS)
async def test_blanks_at_the_seam(kind: Kind, said: str, more: list[str], new: str) -> None:
    outcome, body = await go_on(kind, Said(said), script=[*more, *ending(kind)])
    contents = [message["content"] for message in body["messages"]]
    assert contents == ["hi", said.rstrip()] if said.strip() else ["hi"]
    assert outcome.said == new
    assert all(event.text for event in outcome.events if isinstance(event, Content))


@pytest.mark.parametrize("kind", GOING_ON)
@pytest.mark.parametrize(
    ("said", "more", "new"),
    [
        ("one EN", ["D of", " it"], ""),
        ("one E", ["N", "D"], ""),
        ("one E", ["N", "Y"], "NY"),
        ("one", [" two E", "ND three"], " two "),
        ("one", [" two E"], " two E"),
        ("one EN", ["X EN", "D"], "X "),
    ],
)
async def test_stop_texts_over_the_seam(kind: Kind, said: str, more: list[str], new: str) -> None:
    """An engine looks for them in what it says itself."""
    outcome, _ = await go_on(kind, Said(said), script=[*more, *ending(kind)], stop=["END", "#"])
    assert outcome.said == new
    assert Finish("stop") in outcome.events
    assert outcome.error is None


@pytest.mark.parametrize("kind", GOING_ON)
async def test_what_the_engine_says_of_itself_is_said_once(kind: Kind) -> None:
    if kind == "ollama":
        script: list[Piece] = ["x", done(prompt=9, completion=4)]
    else:
        script = [role() | {"system_fingerprint": "fp"}, "x", finish(), usage(9, 4), DONE]
    outcome, _ = await go_on(kind, Said("Once"), script=script)
    *words, counts = outcome.events
    assert words == [Content("x"), Finish("stop")]
    assert isinstance(counts, Usage)
    assert (counts.prompt, counts.completion) == (9, 4), "of the rest alone"


@pytest.mark.parametrize("kind", GOING_ON)
async def test_it_fails_like_any_other_attempt(kind: Kind) -> None:
    for script, how in (([RST], "failed"), (["x", RST], "broken"), ([Status(400, {"error": "no"})], "client")):
        outcome, _ = await go_on(kind, Said("Once"), script=script)
        assert outcome.kind == how


@pytest.mark.parametrize("kind", GOING_ON)
async def test_an_answer_that_fills_the_context_is_at_its_end(kind: Kind) -> None:
    full = Status(400, {"error": {"message": "the prompt exceeds the context window", "code": 400}})
    outcome, _ = await go_on(kind, Said("Once"), script=[full])
    assert (outcome.events, outcome.error) == ([Finish("length")], None)

"""Ollama's client for Python."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import ollama

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.openai_chats import NO_CALLS, PIXEL, SAY_TRUTH, TOOLS, Truth
from tests.conformance.openai_rest import TEXTS, vector_of
from tests.conformance.table import ALL, row
from tests.rig.answers import ARGUMENTS
from tests.rig.embeddings import close, raw_vector, unit_vector
from tests.rig.engine import expected

CLIENT = "`ollama` for Python"
CHAT = "POST /api/chat"
GENERATE = "POST /api/generate"
GREEDY = {"temperature": 0}
"""So that the real engine says the same each time."""
MESSAGES = [{"role": "user", "content": PROMPT}]


@row(CLIENT, "chat", CHAT)
async def chat(b: Bench) -> None:
    for think in (False, True):
        answer = await b.ollama.chat(b.model, MESSAGES, options=GREEDY, think=think)
        b.says(answer.message.content)
        b.thinks(answer.message.thinking, asked=think)
        assert (answer.done, answer.done_reason, answer.model) == (True, "stop", b.model)
        assert (answer.eval_count or 0) > 0
        assert (answer.total_duration or 0) > 0


@row(CLIENT, "chat(stream=True)", CHAT)
async def chat_stream(b: Bench) -> None:
    parts = [part async for part in await b.ollama.chat(b.model, MESSAGES, options=GREEDY, think=True, stream=True)]
    b.says("".join(part.message.content or "" for part in parts))
    b.thinks("".join(part.message.thinking or "" for part in parts))
    assert [part.done for part in parts[-2:]] == [False, True]
    assert parts[-1].prompt_eval_count


@row(CLIENT, "chat(tools=…)", CHAT)
async def chat_tools(b: Bench) -> str | None:
    messages: list[Any] = [{"role": "user", "content": "call:look"}]
    answer = await b.ollama.chat(b.model, messages, tools=TOOLS, options=GREEDY, think=False)
    if b.real:
        call: Any = {"function": {"name": "look", "arguments": ARGUMENTS}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    else:
        (told,) = answer.message.tool_calls or ()
        assert (told.function.name, told.function.arguments) == ("look", ARGUMENTS)
        assert answer.done_reason == "stop"
        messages.append(answer.message)
    messages.append({"role": "tool", "tool_name": "look", "content": PROMPT})
    b.says((await b.ollama.chat(b.model, messages, tools=TOOLS, options=GREEDY, think=False)).message.content)
    return NO_CALLS if b.real else None


@row(CLIENT, "chat(tools=…, stream=True)", CHAT)
async def chat_tools_stream(b: Bench) -> str | None:
    messages = [{"role": "user", "content": "call:look"}]
    parts = [
        p async for p in await b.ollama.chat(b.model, messages, tools=TOOLS, options=GREEDY, think=False, stream=True)
    ]
    calls = [call for part in parts for call in part.message.tool_calls or ()]
    assert b.real or [call.function.arguments for call in calls] == [ARGUMENTS]
    assert parts[-1].done
    return NO_CALLS if b.real else None


@row(CLIENT, "chat(format=…)", CHAT)
async def chat_format(b: Bench) -> None:
    messages = [{"role": "user", "content": SAY_TRUTH}]
    answer = await b.ollama.chat(b.model, messages, format=Truth.model_json_schema(), options=GREEDY, think=False)
    Truth.model_validate_json(answer.message.content or "")


@row(CLIENT, "chat(an image)", CHAT, refused={"real"})
async def chat_image(b: Bench) -> None:
    answer = await b.ollama.chat(
        b.model, [{"role": "user", "content": PROMPT, "images": [PIXEL]}], options=GREEDY, think=False
    )
    b.says(answer.message.content)


@row(CLIENT, "chat(logprobs=True)", CHAT)
async def chat_logprobs(b: Bench) -> None:
    answer = await b.ollama.chat(b.model, MESSAGES, options=GREEDY, think=False, logprobs=True, top_logprobs=2)
    b.says("".join(token.token for token in answer.logprobs or ()))


@row(CLIENT, "chat(every option)", CHAT)
async def chat_options(b: Bench) -> None:
    options = {
        **{"num_keep": 4, "seed": -1, "num_predict": 400, "top_k": 0, "top_p": 1.5, "min_p": 0.0, "typical_p": 1.0},
        **{"repeat_last_n": -1, "temperature": 3.0, "repeat_penalty": 1.1, "presence_penalty": 3.0},
        **{"frequency_penalty": 0.0, "stop": ["K1", "K2", "K3", "K4", "K5"], "num_ctx": 2048, "num_batch": 64},
        **{"num_gpu": 1, "main_gpu": 0, "use_mmap": True, "num_thread": 2, "penalize_newline": True, "numa": False},
    }
    answer = await b.ollama.chat(b.model, MESSAGES, think=False, options=options, keep_alive="5m")
    assert answer.done
    if not b.real:
        b.says(answer.message.content)


@row(CLIENT, "chat(no messages: load and unload)", CHAT)
async def load(b: Bench) -> None:
    for keep_alive, reason in (("5m", "load"), (0, "unload")):
        answer = await b.ollama.chat(b.model, [], keep_alive=keep_alive)
        assert (answer.done, answer.done_reason, answer.message.content) == (True, reason, "")


@row(CLIENT, "chat(an unknown model)", CHAT, refused=ALL)
async def chat_unknown(b: Bench) -> None:
    await b.ollama.chat("nobody", MESSAGES)


@row(CLIENT, "generate", GENERATE)
async def generate(b: Bench) -> None:
    for think in (False, True):
        answer = await b.ollama.generate(b.model, PROMPT, system="Be brief.", options=GREEDY, think=think)
        b.says(answer.response)
        b.thinks(answer.thinking, asked=think)
        assert answer.done_reason == "stop"


@row(CLIENT, "generate(stream=True)", GENERATE)
async def generate_stream(b: Bench) -> None:
    parts = [part async for part in await b.ollama.generate(b.model, PROMPT, options=GREEDY, think=False, stream=True)]
    b.says("".join(part.response or "" for part in parts))
    assert parts[-1].done


@row(CLIENT, "generate(raw=True)", GENERATE)
async def generate_raw(b: Bench) -> None:
    answer = await b.ollama.generate(b.model, PROMPT, raw=True, options=GREEDY | {"num_predict": 20})
    assert answer.response if b.real else answer.response == expected(PROMPT)


@row(CLIENT, "generate(suffix=…)", GENERATE, refused={"real"})
async def generate_suffix(b: Bench) -> None:
    assert (await b.ollama.generate(b.model, PROMPT, suffix="the end")).response == expected(PROMPT)


@row(CLIENT, "generate(an image)", GENERATE, refused={"real"})
async def generate_image(b: Bench) -> None:
    b.says((await b.ollama.generate(b.model, PROMPT, images=[PIXEL], options=GREEDY, think=False)).response)


@row(CLIENT, "generate(no prompt: load and unload)", GENERATE)
async def generate_load(b: Bench) -> None:
    for keep_alive, reason in ((300, "load"), (0, "unload")):
        assert (await b.ollama.generate(b.model, keep_alive=keep_alive)).done_reason == reason


@row(CLIENT, "embed", "POST /api/embed")
async def embed(b: Bench) -> None:
    answer = await b.ollama.embed(b.embedder, TEXTS)
    for vector, text in zip(answer.embeddings, TEXTS, strict=True):
        vector_of(b, vector, text)
    assert (answer.prompt_eval_count or 0) > 0
    (shorter,) = (await b.ollama.embed(b.embedder, "the sea", dimensions=4)).embeddings
    assert len(shorter) == 4
    assert math.isclose(math.hypot(*shorter), 1, abs_tol=1e-3)


@row(CLIENT, "embeddings", "POST /api/embeddings")
async def embeddings(b: Bench) -> str | None:
    vector = (await b.ollama.embeddings(b.embedder, "the sea")).embedding
    if b.key == "openai":
        assert close(vector, unit_vector("the sea"))
        return "vectors come at length 1: the engine has no way to be asked for them as they are"
    assert math.hypot(*vector) > 1.1 if b.real else close(vector, raw_vector("the sea"))
    return None


@row(CLIENT, "Client (the client that blocks)", "several of these")
async def blocking(b: Bench) -> None:
    def use() -> str:
        client = ollama.Client(b.url, timeout=60)
        client.chat(b.model, MESSAGES, options=GREEDY)
        parts = client.chat(b.model, MESSAGES, options=GREEDY, stream=True)
        client.generate(b.model, PROMPT, options=GREEDY)
        client.embed(b.embedder, "the sea")
        return "".join(part.message.content or "" for part in parts)

    b.says(await asyncio.to_thread(use))

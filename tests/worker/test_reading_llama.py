"""Long prompts in pieces on the real llama.cpp: nobody can tell it from the answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from buffer.backend import BackendSpec
from buffer.job import Chat, Message, Sampling, Usage, encode_chat
from buffer.names import queue_names
from buffer.store import Store
from tests.rig.llama import run_llama
from tests.worker.rig import Gate, settings, working

CONTEXT = 2048
ANSWER = 24


@pytest.mark.parametrize("store", ["embedded"], indirect=True)
async def test_a_prompt_that_fills_the_context_is_answered_as_if_it_had_come_whole(store: Store, door: Gate) -> None:
    text = "".join(f"{number} hello there, what does the sailor do? " for number in range(CONTEXT))
    with run_llama(slots=3, context=CONTEXT) as server:
        async with (
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as direct,
            working(
                store,
                BackendSpec(name="llama", kind="llamacpp", url=server.url),
                config=settings(lease_seconds=60.0),
            ),
        ):
            tokens = (await direct.post("/tokenize", json={"content": text})).json()["tokens"]
            text = text[: round(len(text) * (CONTEXT - ANSWER - 48) / len(tokens))]
            chat = Chat(server.model, [Message("user", text)], think="off", max_tokens=ANSWER, include_usage=True)
            chat.sampling, chat.stream = Sampling(temperature=0), True
            # What is estimated is off, as it is in life.
            size = round(0.7 * CONTEXT)
            claims: dict[str, Any] = {"prefill": size, "kv": size, "long": True, "splits": True}
            long = await door.ask(lane="slow", body=encode_chat(chat), model=queue_names(server.model)[0], **claims)
            assert (await long.end(60)).kind == "done"
            (usage,) = (event for event in long.events if isinstance(event, Usage))
            assert usage.prompt > 0.9 * CONTEXT
            assert usage.cached is not None
            assert usage.cached > 200
            whole = await direct.post(
                "/v1/chat/completions",
                json={
                    "messages": [{"role": "user", "content": text}],
                    "temperature": 0,
                    "max_tokens": ANSWER,
                    "min_p": 0,
                    "cache_prompt": False,
                    "chat_template_kwargs": {"enable_thinking": False},
                },
            )
            told = whole.json()
            assert told["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
            assert long.text == told["choices"][0]["message"]["content"]

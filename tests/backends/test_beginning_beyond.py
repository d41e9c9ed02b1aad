"""Prompts that with ``max_tokens`` go beyond the context: older vLLMs refuse them, newer ones cut the answer short."""

from __future__ import annotations

from typing import Any

import pytest

from backends.base import Backend, BackendError
from buffer.job import Chat, Message
from tests.backends.test_beginning import READ, TOKENS, Answers, vllm
from tests.rig.script import DONE, Status, finish

CONTEXT = 1000
REFUSAL = (
    "'max_tokens' or 'max_completion_tokens' is too large: 901. This model's maximum context length is 1000 tokens and "
    "your request has 100 input tokens (901 > 1000 - 100)."
)
REFUSED = Status(400, {"error": {"message": REFUSAL, "type": "BadRequestError", "param": None, "code": 400}})
TAKEN = ["one", finish(), {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 1}}, DONE]


def long(most: int | None) -> Chat:
    return Chat("m", [Message("user", "word " * 90)], think="off", max_tokens=most)


async def tries(of: Backend, chat: Chat) -> bool:
    beginning = await of.beginning(chat, upstream_model="m-oai")
    assert beginning is not None
    beginning.close()
    return beginning.tries


async def answered(of: Backend, chat: Chat) -> None:
    beginning = await of.beginning(chat, upstream_model="m-oai")
    assert beginning is not None
    stream = of.chat(chat, upstream_model="m-oai", request_id="r", beginning=beginning)
    assert [events async for events in stream]


async def test_whether_it_refuses_is_seen_before_a_piece_is_read() -> None:
    chats: list[Any] = [REFUSED, REFUSED, TAKEN, REFUSED]
    answers: Answers = {
        "/tokenize": [Status(200, TOKENS)],
        "/v1/completions": [Status(200, READ)],
        "/v1/chat/completions": chats,
    }
    async with vllm(answers) as (engine, of, _):
        engine.pages["/v1/models"]["data"][0]["max_model_len"] = CONTEXT
        await of.probe()
        assert not await tries(of, long(900)), "just fits"
        assert not await tries(of, long(None))
        for _again in range(2):
            assert await tries(of, long(901))
            with pytest.raises(BackendError) as raised:
                await answered(of, long(901))
            assert (raised.value.kind, raised.value.status, raised.value.message) == ("client", 400, REFUSAL)
        await answered(of, long(901))
        assert not await tries(of, long(901)), "it was seen to cut the answer short"
        with pytest.raises(BackendError):
            await answered(of, long(901))
        assert await tries(of, long(901)), "it is another version now"

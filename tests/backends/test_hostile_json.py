"""Answers that are HTTP, and JSON of a kind that no engine has a reason to send."""

from __future__ import annotations

import asyncio

import pytest

from backends.base import BackendError
from buffer.backend import Kind
from buffer.job import Event, Usage
from tests.backends.rig import KINDS, backend, chat
from tests.backends.test_hostile_http import OK, serving

DEEP = b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
WORDS = b'{"choices":[{"index":0,"delta":{"content":"hello"}}]}'
END = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


def answer(content_type: bytes, body: bytes) -> bytes:
    return OK + b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (content_type, len(body), body)


def streamed(kind: Kind, *pieces: bytes) -> bytes:
    if kind == "ollama":
        return answer(b"application/x-ndjson", b"".join(piece + b"\n" for piece in pieces))
    return answer(b"text/event-stream", b"".join(b"data: " + piece + b"\n\n" for piece in (*pieces, b"[DONE]")))


async def events_of(kind: Kind, sent: bytes) -> list[Event]:
    found: list[Event] = []
    async with serving(sent) as (url, _), backend(url, kind) as one:
        async for events in one.chat(chat(), upstream_model="m", request_id="r"):
            found += events
    return found


@pytest.mark.parametrize("kind", KINDS)
async def test_json_without_a_bottom_costs_a_look_and_not_the_worker(kind: Kind) -> None:
    async with serving(*[answer(b"application/json", DEEP)] * 20) as (url, _), backend(url, kind) as one:
        with pytest.raises(BackendError):
            async with asyncio.timeout(20):
                await one.probe()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [False, True])
async def test_json_without_a_bottom_costs_an_answer(kind: Kind, error: bool) -> None:
    sent = streamed(kind, DEEP)
    with pytest.raises(BackendError):
        await events_of(kind, sent.replace(b"200 OK", b"400 No") if error else sent)


@pytest.mark.parametrize(
    "told",
    [
        b'{"choices":[],"usage":{"prompt_tokens":1%b,"completion_tokens":-5}}' % (b"0" * 30),
        b'{"choices":[],"timings":{"prompt_n":3,"prompt_ms":1e308,"predicted_ms":-1e308}}',
    ],
)
async def test_counts_are_such_as_can_be_kept(told: bytes) -> None:
    usage = [event for event in await events_of("vllm", streamed("vllm", WORDS, END, told)) if isinstance(event, Usage)]
    numbers = [n for n in (usage[-1].prompt, usage[-1].completion, usage[-1].prompt_ns) if n is not None]
    assert all(0 <= n <= 2**53 for n in numbers)


async def test_counts_of_an_ollama_are_such_as_can_be_kept() -> None:
    line = b'{"message":{"content":"hi"},"done":true,"done_reason":"stop","prompt_eval_count":1%b,"eval_count":-3}'
    usage = [
        event for event in await events_of("ollama", streamed("ollama", line % (b"0" * 30))) if type(event) is Usage
    ]
    assert (usage[-1].prompt, usage[-1].completion) == (2**53, 0)

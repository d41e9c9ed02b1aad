"""Words of an answer that are handed on in the turn in which they come: it tells what reading tells."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import aclosing, asynccontextmanager

import pytest

from backends.base import BackendError
from backends.guarded import Guarded
from buffer.job import Content, Event
from tests.backends.rig import Outcome, backend, chat

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
NEVER: Callable[[], bool] = lambda: True  # noqa: E731


def message(delta: dict[str, object] | None = None, finish: str | None = None, **more: object) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices} | more
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def word(text: str) -> bytes:
    return message({"content": text})


ROLE, FINISH = message({"role": "assistant", "content": ""}), message({}, "stop")
USAGE = message(usage={"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12})
DONE = b"data: [DONE]\n\n"
END = [FINISH, USAGE, DONE]
WORDS = [
    word(text)
    for text in ("Es", " war", " \u2028 ein", "mal", ' "ein"', " K\u00f6nig", "\\", " x" * 50, "\n\n", "data: ")
]

MIXED = [message({"reasoning_content": f" {at}"}) for at in range(100)] + [
    message({"content": f" {at}"}, created=at) for at in range(100)
]
"""Thinking, and words of an engine that tells the time."""

ANSWERS = {
    "thought, and the time": [ROLE, *MIXED, *END],
    "words": [ROLE, *WORDS, *END],
    "thought between": [ROLE, *WORDS, message({"reasoning_content": "hm"}), *WORDS, *END],
    "an empty word between": [ROLE, *WORDS, word(""), *WORDS, *END],
    "logprobs between": [
        ROLE,
        *WORDS,
        message({"content": "x"}).replace(
            b'"finish_reason"', b'"logprobs":{"content":[{"token":"x"}]},"finish_reason"'
        ),
        *WORDS,
        *END,
    ],
    "comments between": [ROLE, *WORDS, b": still here\n\n", *WORDS, *END],
    "a tool between": [
        ROLE,
        *WORDS,
        message({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
        message({}, "tool_calls"),
        USAGE,
        DONE,
    ],
    "another form from here on": [ROLE, *WORDS, *[one.replace(b'"m"', b'"other"') for one in WORDS], *END],
    "an error amid": [ROLE, *WORDS, b'data: {"error":{"message":"out of memory","code":500}}\n\n', DONE],
    "no JSON amid": [ROLE, *WORDS, b"data: {]\n\n", *WORDS, *END],
    "no end": [ROLE, *WORDS],
    "no reason": [ROLE, *WORDS, DONE],
    "words after the end": [ROLE, *WORDS, FINISH, *WORDS, USAGE, DONE],
}


@asynccontextmanager
async def saying(answer: bytes, cuts: list[int], *, pause_s: float = 0.0, hang: bool = False) -> AsyncIterator[str]:
    """Serves the answer in segments that end at the ``cuts``, each in a turn of its own."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for begin, end in zip([0, *cuts], [*cuts, len(answer)], strict=True):
            writer.write(answer[begin:end])
            await asyncio.sleep(pause_s)
        if hang:
            await gone.wait()
        writer.close()

    gone = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        gone.set()


def chunked(messages: list[bytes]) -> tuple[bytes, list[int]]:
    """The whole answer, and where its messages end."""
    answer, ends = HEAD, [len(HEAD)]
    for one in messages:
        answer += b"%x\r\n%b\r\n" % (len(one), one)
        ends.append(len(answer))
    return answer + (b"0\r\n\r\n" if messages[-1] == DONE else b""), ends


async def heard(url: str, *, flows: bool, more: Callable[[], bool] = NEVER, stall_s: float = 10.0) -> Outcome:
    """What a worker hears. ``more``: whether the engine may be read on."""
    outcome = Outcome()

    def words(texts: list[str]) -> bool:
        return take(list(map(Content, texts)))

    def take(events: list[Event]) -> bool:
        assert events
        outcome.reads.append(events)
        return more()

    async with backend(url, stall_s=stall_s) as one:
        try:
            stream = one.chat(chat(), upstream_model="m", request_id="r")
            assert isinstance(stream, Guarded)
            async with aclosing(stream):
                async for events in stream:
                    outcome.reads.append(events)
                    if flows:
                        await stream.flow(words, take)
        except BackendError as error:
            outcome.error = error
    return outcome


def told(outcome: Outcome) -> tuple[list[object], object]:
    """Words that came one after the other are one."""
    joined: list[object] = []
    for event in outcome.events:
        if isinstance(event, Content) and joined and isinstance(joined[-1], str):
            joined[-1] += event.text
        else:
            joined.append(event.text if isinstance(event, Content) else event)
    error = outcome.error
    return joined, error and (error.message, error.kind, error.status, error.code)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ANSWERS)
async def test_what_flows_is_what_is_read(name: str, seed: int) -> None:
    answer, ends = chunked(ANSWERS[name])
    chance = random.Random(f"{name} {seed}")
    # Some seeds cut where messages end, as engines do, others anywhere.
    cuts = (
        ends[:-1]
        if seed == 0
        else sorted({chance.choice(ends) if seed < 4 else chance.randrange(len(answer)) for _ in range(20)})
    )
    async with saying(answer, cuts) as url:
        read = await heard(url, flows=False)
    async with saying(answer, cuts) as url:
        flowed = await heard(url, flows=True)
    async with saying(answer, cuts) as url:
        halting = await heard(url, flows=True, more=lambda: chance.random() < 0.5)
    assert told(flowed) == told(halting) == told(read)
    assert len(read.events) >= 10


@pytest.mark.parametrize("said", [[word(f" {at}") for at in range(200)], MIXED])
async def test_nobody_is_woken_for_what_flows(said: list[bytes]) -> None:
    answer, ends = chunked([ROLE, *said, *END])
    async with saying(answer, ends[:-1]) as url, backend(url) as one:
        stream = one.chat(chat(), upstream_model="m", request_id="r")
        assert isinstance(stream, Guarded)
        read, flowed = 0, 0

        def take(some: Sized) -> bool:
            nonlocal flowed
            flowed += len(some)
            return True

        async with aclosing(stream):
            async for _ in stream:
                read += 1
                await stream.flow(take, take)
    assert flowed > 150
    assert read < 10


async def test_silence_is_waited_for_from_the_last_message_on_and_not_from_comments() -> None:
    answer, ends = chunked([ROLE, *WORDS, *[b": still here\n\n"] * 40])
    began_at = asyncio.get_running_loop().time()
    async with saying(answer, ends[:-1], pause_s=0.03, hang=True) as url:
        outcome = await heard(url, flows=True, stall_s=0.4)
    assert outcome.error is not None
    assert outcome.error.kind == "broken"
    # Messages and comments come for 1.5 s.
    assert 0.6 < asyncio.get_running_loop().time() - began_at < 1.2


async def test_an_engine_that_falls_silent_amid_the_words_is_given_up_after_one_stall() -> None:
    answer, ends = chunked([ROLE, *WORDS])
    began_at = asyncio.get_running_loop().time()
    async with saying(answer, ends[:-1], hang=True) as url:
        outcome = await heard(url, flows=True, stall_s=0.4)
    assert outcome.error is not None
    assert outcome.error.kind == "broken"
    assert 0.3 < asyncio.get_running_loop().time() - began_at < 0.75


async def test_a_job_that_is_stopped_is_told_nothing_more() -> None:
    answer, ends = chunked([ROLE, *(word(f" {at}") for at in range(2000)), *END])
    taken: list[str] = []
    async with saying(answer, ends[:-1]) as url, backend(url) as one:
        stream = one.chat(chat(), upstream_model="m", request_id="r")
        assert isinstance(stream, Guarded)

        async def follow() -> None:
            async with aclosing(stream):
                async for _ in stream:
                    await stream.flow(take, lambda events: take([str(event) for event in events]))

        def take(texts: list[str]) -> bool:
            taken.extend(texts)
            if len(taken) > 20 and not task.cancelling():
                task.cancel()
                taken.append("stopped")
            return True

        task = asyncio.create_task(follow())
        with pytest.raises(asyncio.CancelledError):
            await task
    assert taken[-1] == "stopped"


async def test_what_goes_wrong_with_the_words_ends_the_job_and_not_the_loop() -> None:
    answer, ends = chunked([ROLE, *WORDS, *END])

    def take(some: Sized) -> bool:
        raise ZeroDivisionError

    async with saying(answer, ends[:-1]) as url, backend(url) as one:
        stream = one.chat(chat(), upstream_model="m", request_id="r")
        assert isinstance(stream, Guarded)

        async def follow() -> None:
            async for _ in stream:
                await stream.flow(take, take)

        async with aclosing(stream):
            with pytest.raises(ZeroDivisionError):
                await follow()

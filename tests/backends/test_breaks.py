"""Jobs at scripted back ends: what goes wrong, and how it is told."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from backends.base import BackendError
from buffer.backend import Kind
from buffer.job import Content, Finish, Usage
from tests.backends.rig import KINDS, backend, chat, closed_soon, ending, run, scripted
from tests.rig.script import (
    CUT,
    DONE,
    FIN,
    HEAD,
    HOLD,
    RST,
    Sleep,
    Status,
    finish,
    role,
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [RST, CUT, FIN])
async def test_broken_streams(kind: Kind, last: Any) -> None:
    async with scripted(kind, ["one ", "two", last]) as engine, backend(engine.url, kind) as of:
        outcome = await run(of)
    assert (outcome.said, outcome.kind) == ("one two", "broken")
    assert not any(isinstance(event, Finish) for event in outcome.events)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", [[RST], [CUT], [FIN], [HEAD, RST], [HEAD, FIN]])
async def test_nothing_at_all(kind: Kind, script: Any) -> None:
    async with scripted(kind, script) as engine, backend(engine.url, kind) as of:
        assert (await run(of)).kind == "failed"


@pytest.mark.parametrize("last", [RST, FIN, HOLD])
async def test_role_alone_is_nothing(last: Any) -> None:
    async with scripted("vllm", [role(), last]) as engine, backend(engine.url, first_s=0.3) as of:
        outcome = await run(of)
    assert (outcome.reads, outcome.kind) == ([], "failed")


@pytest.mark.parametrize("last", [RST, CUT, FIN])
async def test_end_without_its_mark_is_an_end(last: Any) -> None:
    async with scripted("vllm", [role(), "Hi", finish(), last]) as engine, backend(engine.url) as of:
        outcome = await run(of)
    assert (outcome.said, outcome.kind, len(engine.requests)) == ("Hi", "ok", 1)


async def test_counts_that_never_come_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.exchange.COMPLETE_S", 0.1)
    async with scripted("vllm", ["Hi", finish(), HOLD]) as engine, backend(engine.url) as of:
        outcome = await run(of)
        assert outcome.events == [Content("Hi"), Finish("stop")]
        await closed_soon(engine.requests[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [RST, CUT])
async def test_words_before_a_break_are_not_lost_on_a_slow_reader(kind: Kind, last: Any) -> None:
    script = ["one ", Sleep(0.02), "two ", "three", last]
    async with (
        scripted(kind, script) as engine,
        backend(engine.url, kind) as of,
        aclosing(of.chat(chat(), upstream_model="up", request_id="r")) as stream,
    ):
        events = await anext(stream)
        async with asyncio.timeout(5):
            while engine.connections:
                await asyncio.sleep(0.01)
        events += await anext(stream)
        with pytest.raises(BackendError) as caught:
            await anext(stream)
    assert events == [Content("one "), Content("two "), Content("three")]
    assert caught.value.kind == "broken"


@pytest.mark.parametrize("kind", KINDS)
async def test_silence(kind: Kind) -> None:
    for script, limits in (([HOLD], (0.2, 9)), ([HEAD, HOLD], (0.2, 9)), (["one", HOLD], (9, 0.2))):
        async with (
            scripted(kind, script) as engine,
            backend(engine.url, kind, first_s=limits[0], stall_s=limits[1]) as of,
        ):
            outcome = await run(of)
            await closed_soon(engine.requests[0])
        assert outcome.kind == ("broken" if "one" in script else "failed")


async def test_comments_are_no_sign_of_life() -> None:
    ticking = [piece for _ in range(20) for piece in (b": ping\n\n", Sleep(0.05))]
    async with scripted("vllm", ["one", *ticking]) as engine, backend(engine.url, stall_s=0.3) as of:
        assert (await run(of)).kind == "broken"


async def test_time_that_the_reader_takes_is_not_the_engines() -> None:
    async with (
        scripted("vllm", ["one", "two", *ending("vllm")]) as engine,
        backend(engine.url, stall_s=0.2) as of,
        aclosing(of.chat(chat(), upstream_model="up", request_id="r")) as stream,
    ):
        await anext(stream)
        await asyncio.sleep(0.4)
        assert [event async for events in stream for event in events][-1] == Usage(7, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "expected_kind", "shown"),
    [(400, "client", 400), (404, "client", 404), (413, "client", 413), (422, "client", 422), (401, "client", 502),
     (429, "refused", 503), (503, "refused", 503), (500, "failed", 502)],
)  # fmt: skip
async def test_statuses(kind: Kind, status: int, expected_kind: str, shown: int) -> None:
    body = {
        "object": "error",
        "message": "requested 9000 tokens, limit 4096",
        "type": "BadRequestError",
        "code": status,
    }
    async with scripted(kind, [Status(status, body)]) as engine, backend(engine.url, kind) as of:
        error = (await run(of, chat(front="ollama"))).error
        assert error is not None
        assert (error.kind, error.status, len(engine.requests)) == (expected_kind, shown, 1)
        assert status == 401 or "limit 4096" in error.message


@pytest.mark.parametrize("kind", KINDS)
async def test_errors_that_come_with_a_good_status(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind) as of:
        engine.once.append([Status(200, {"error": {"message": "boom"}})])
        assert (await run(of)).kind == "failed"
        engine.once.append([Status(200, "<html>boom</html>", "text/html")])
        assert (await run(of)).kind == "failed"
        engine.once.append([{"error": "boom"}])
        assert (await run(of)).kind == "failed"
        engine.once.append(["one", {"error": "boom"}])
        outcome = await run(of)
        assert (outcome.said, outcome.kind) == ("one", "broken")
        assert outcome.error is not None
        assert outcome.error.message.endswith("boom")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_proxy_s_page(kind: Kind, status: int) -> None:
    page = Status(status, "<html><body>Bad Gateway: nginx/1.25 at gpu-7.internal</body></html>", "text/html")
    async with scripted(kind, [page]) as engine, backend(engine.url, kind) as of:
        outcome = await run(of)
    assert outcome.kind == ("refused" if status == 503 else "failed")
    assert outcome.error is not None
    assert "html" not in outcome.error.message
    assert "gpu-7" not in outcome.error.message


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "openai"])
@pytest.mark.parametrize("words", [[], ["one"]])
async def test_an_answer_that_is_aborted(kind: Kind, words: list[Any]) -> None:
    """So vLLM ends what runs when it is shut down, with all the marks of an end."""
    script = [role(), *words, finish("abort"), DONE]
    async with scripted(kind, script) as engine, backend(engine.url, kind) as of:
        outcome = await run(of)
    assert (outcome.said, outcome.kind) == ("".join(words), "broken" if words else "failed")


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_there(kind: Kind) -> None:
    async with scripted(kind) as engine:
        url = engine.url
    async with backend(url, kind) as of:
        outcome = await run(of)
        assert outcome.error is not None
        assert (outcome.kind, outcome.error.status) == ("refused", 503)
        assert outcome.error.message == "Back end 'b' cannot be reached."


async def test_nobody_who_accepts() -> None:
    """A full backlog: the handshake gets no answer."""
    import socket

    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for other in (first, second):
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        async with backend(f"http://127.0.0.1:{listener.getsockname()[1]}", connect_s=0.2) as of:
            assert (await run(of)).kind == "refused"

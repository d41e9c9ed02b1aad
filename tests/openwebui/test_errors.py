"""What goes wrong is told in words below the question, whichever connection it came by."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.openwebui.api import Api
from tests.openwebui.browser import Browser
from tests.openwebui.front import PREFIX
from tests.openwebui.installation import within
from tests.openwebui.scripted import KINDS, QUEUE_LIMIT, Bench, name_of
from tests.rig.script import CUT, RST, Piece, Status, Wait, answer, role

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

by_both = pytest.mark.parametrize("connection", ["ollama", "openai"])
MESSAGES = {
    400: "This model's maximum context length is 4096 tokens.",
    404: "The model has been moved elsewhere.",
    500: "The engine has lost its temper.",
    503: "The engine is loading its weights.",
}

FULL = {"ollama": "server busy, please try again", "openai": f"The queue is full ({QUEUE_LIMIT} requests are waiting)"}
GONE = {"ollama": "model 'fleeting:latest' not found", "openai": "The model `fleeting:latest` does not exist."}
"""By Ollama's API in Ollama's own words."""


def refusal(kind: str, status: int) -> Status:
    message = MESSAGES[status]
    told = {"error": message} if kind == "ollama" else {"error": {"message": message, "type": "x", "code": status}}
    return Status(status, told)


@pytest.mark.parametrize("status", MESSAGES)
@pytest.mark.parametrize("kind", KINDS)
@by_both
async def test_an_engine_that_refuses(
    bench: Bench, bench_browser: Browser, connection: str, kind: str, status: int
) -> None:
    bench.engines[kind].script = [refusal(kind, status)]
    await bench_browser.chat_with(name_of(connection, kind))
    await bench_browser.do("say", text="What does the harbor do?")
    await bench_browser.do("told", words=MESSAGES[status])


@pytest.mark.parametrize(("kind", "word"), [("ollama", CUT), ("vllm", RST), ("ollama", "told"), ("vllm", "told")])
@by_both
async def test_an_engine_that_breaks_off(
    bench: Bench, bench_browser: Browser, connection: str, kind: str, word: Piece
) -> None:
    """The words stay, and a sentence tells why there are no more. ``told``: the engine says so itself."""
    written = asyncio.Event()
    message = "The engine ran out of memory."
    sentence = message if word == "told" else "closed the connection before the answer was complete"
    error = {"error": message} if kind == "ollama" else {"error": {"message": message, "code": 500}}
    start: list[Piece] = [] if kind == "ollama" else [role()]
    bench.engines[kind].script = [
        *start,
        "The harbor lies ",
        "still and ",
        Wait(written),
        error if word == "told" else word,
    ]
    await bench_browser.chat_with(name_of(connection, kind))
    await bench_browser.do("say", text="What does the harbor do?")
    await bench_browser.do("writing", least=15)
    written.set()
    seen = await bench_browser.do("told", words=sentence)
    assert seen["text"].startswith("The harbor lies still and")


@by_both
async def test_a_full_queue(bench: Bench, bench_browser: Browser, bench_api: Api, connection: str) -> None:
    """As many chats as the engine takes are being answered, and as many wait as may."""
    engine = bench.engines["ollama"]
    opened = asyncio.Event()
    engine.script = [Wait(opened), *answer("ollama", "At last.")]
    model = name_of(connection, "ollama")
    await bench_browser.chat_with(model)
    async with asyncio.TaskGroup() as others:
        asked = []
        while await bench.waiting() < QUEUE_LIMIT:
            asked.append(others.create_task(bench_api.ask(model, "What does the harbor do?")))

            async def arrived() -> bool:
                return await bench.waiting() + await bench.in_flight() == len(asked)

            await within(10, arrived)
        try:
            await bench_browser.do("say", text="And the sea?")
            await bench_browser.do("told", words=FULL[connection])
        finally:
            opened.set()
    assert [task.result().status_code for task in asked] == [200] * len(asked)


@by_both
async def test_a_model_that_has_gone_meanwhile(
    bench: Bench, bench_browser: Browser, bench_api: Api, connection: str
) -> None:
    await bench_api.pulled("fleeting", lambda line: None)
    name = "fleeting:latest" if connection == "ollama" else f"{PREFIX}.fleeting:latest"

    async def offered() -> bool:
        return name in await bench_api.models()

    await within(3, offered)
    await bench_browser.chat_with(name)
    async with httpx.AsyncClient(base_url=bench.site.url, trust_env=False) as gateway:
        assert (await gateway.request("DELETE", "/api/delete", json={"model": "fleeting"})).status_code == 200
    await bench_browser.do("say", text="What does the harbor do?")
    await bench_browser.do("told", words=GONE[connection])
    assert not bench.engines["ollama"].requests

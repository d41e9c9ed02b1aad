"""A document of some hundred chunks, embedded through the gateway, and a question about it."""

from __future__ import annotations

import time

import pytest

from tests.openwebui.api import Api
from tests.openwebui.scripted import CHUNK_CHARS, Bench, name_of

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

CHUNKS = 300
CALL_S = 0.05
"""What an engine takes for a call, whatever is in it."""


def paragraphs(count: int, what: str) -> list[str]:
    """Each of them fills a chunk: no two go into one."""
    made = [
        f"Note {number} of the {what}: " + "the harbor lies still and the lamps are lit. " * 4
        for number in range(count)
    ]
    return [text[: CHUNK_CHARS - 20].strip() for text in made]


async def test_a_document_is_embedded_in_few_calls(
    bench: Bench, bench_api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    """Open WebUI sends every chunk by itself, all at once."""
    embeddings = bench.engines["ollama"].embeddings
    embeddings.delay_s = CALL_S
    written = paragraphs(CHUNKS, "log")
    began = time.monotonic()
    await bench_api.upload("log.txt", "\n\n".join(written))
    took_s = time.monotonic() - began
    inputs = [one for call in embeddings.calls for one in call]
    with capsys.disabled():
        print(f"\n{len(inputs)} chunks -> {len(embeddings.calls)} calls to the engine, {took_s:.1f} s for the upload")
    assert sorted(inputs) == sorted(written)
    assert len(embeddings.calls) <= CHUNKS / 5


@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_a_question_about_a_document(bench: Bench, bench_api: Api, connection: str) -> None:
    """A person waits for the search words as for the answer: neither goes to the background."""
    engine = bench.engines["ollama"]
    written = paragraphs(5, f"ledger {connection}")
    attached = await bench_api.upload(f"ledger-{connection}.txt", "\n\n".join(written))
    engine.embeddings.calls.clear()
    total, background = await bench.ended(), await bench.ended("background")
    answered = await bench_api.ask(name_of(connection, "ollama"), "Are the lamps lit?", files=[attached])
    assert answered.status_code == 200, answered.text
    asked = [request.json() for request in engine.requests]
    assert len(asked) == 2, "the search words, and the answer"
    assert any(note in str(asked[1]["messages"]) for note in written)
    assert sum(len(call) for call in engine.embeddings.calls) >= 1
    assert await bench.ended("background") == background
    assert await bench.ended() >= total + 2

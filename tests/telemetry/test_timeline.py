"""A request's timeline: when the pieces of its prompt were read and the tokens of its answer came; and the pieces as
events of its attempt."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from buffer.spans import Spans
from buffer.standing import read_standing
from buffer.store import Store, open_store
from buffer.telemetry import Telemetry
from tests.telemetry.collector import ROOT, TRACE
from tests.worker.rig import Crew, Gate, gate, settings, spec
from tests.worker.test_reading import Engine, ask
from worker.runner import Worker


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store(None, prefix=f"t{secrets.token_hex(4)}")
    yield store
    await store.aclose()


@pytest.fixture
async def door(store: Store) -> AsyncIterator[Gate]:
    async with gate(store) as it:
        yield it


async def test_a_prompt_that_is_read_in_pieces(store: Store, door: Gate) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    telemetry = Telemetry()
    telemetry.spans = Spans(provider)
    engine = Engine()
    async with engine:
        config = settings(lease_seconds=60.0, backends=[spec(engine)])
        crew = Crew([Worker(config, store, telemetry=telemetry)])
        await crew.up()
        long = await ask(door, trace=f"00-{TRACE}-{ROOT}-01")
        assert (await long.end()).kind == "done"
        crew.stop.set()
        await crew.tasks[0]
    call, attempt = kept.get_finished_spans()
    assert [f"{one.context.trace_id:032x}" for one in (call, attempt)] == [TRACE, TRACE]
    assert attempt.parent is not None
    assert f"{attempt.parent.span_id:016x}" == ROOT
    read = [event for event in attempt.events if event.name == "prompt piece read"]
    counts = [event.attributes["doublebuffer.prompt_tokens"] for event in read if event.attributes]
    assert counts == engine.pieces
    assert len(counts) > 1
    standing = await read_standing(door.lanes, long.id)
    assert standing is not None
    assert [tokens for _, tokens in standing.paced.pieces] == engine.pieces
    assert [tokens for _, tokens in standing.paced.tokens][-1] == 3
    at = [at_us for at_us, _ in (*standing.paced.pieces, *standing.paced.tokens)]
    assert at == sorted(at)
    assert standing.started_us <= at[0] <= at[-1] <= standing.ended_us

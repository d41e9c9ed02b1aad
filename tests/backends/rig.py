"""Back ends as the tests use them, and what came of a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from backends import make
from backends.base import NOTHING_SAID, Backend, BackendError
from buffer.backend import BackendSpec, Kind
from buffer.heard import Said
from buffer.job import Chat, Event, Message
from tests.backends.streams import said, thought
from tests.rig.connection import Recorded
from tests.rig.script import DONE, done, finish, usage
from tests.rig.scripted import Scripted

KINDS: list[Kind] = ["vllm", "llamacpp", "openai", "ollama"]


@asynccontextmanager
async def backend(
    url: str,
    kind: Kind = "vllm",
    *,
    connect_s: float = 2.0,
    first_s: float = 10.0,
    stall_s: float = 10.0,
    **spec: Any,
) -> AsyncIterator[Backend]:
    made = make(
        BackendSpec(name="b", kind=kind, url=url, **spec),
        connect_timeout_s=connect_s,
        first_token_timeout_s=first_s,
        stall_timeout_s=stall_s,
    )
    try:
        yield made
    finally:
        await made.aclose()


def scripted(kind: Kind, script: Any = None, **more: Any) -> Scripted:
    return Scripted("ollama" if kind == "ollama" else "openai", kind=kind, script=script, **more)


def chat(text: str = "x", **fields: Any) -> Chat:
    return Chat("m", [Message("user", text)], **fields)


@dataclass
class Outcome:
    reads: list[list[Event]] = field(default_factory=list)
    error: BackendError | None = None

    @property
    def events(self) -> list[Event]:
        return [event for read in self.reads for event in read]

    @property
    def said(self) -> str:
        return said(self.events)

    @property
    def thought(self) -> str:
        return thought(self.events)

    @property
    def kind(self) -> str:
        return self.error.kind if self.error else "ok"


async def run(
    of: Backend,
    asked: Chat | str = "x",
    *,
    model: str = "up",
    request_id: str = "r",
    said: Said = NOTHING_SAID,
    spent: int = 0,
) -> Outcome:
    outcome = Outcome()
    asked = chat(asked) if isinstance(asked, str) else asked
    try:
        async with aclosing(
            of.chat(asked, upstream_model=model, request_id=request_id, said=said, spent=spent)
        ) as stream:
            async for events in stream:
                assert events
                outcome.reads.append(events)
    except BackendError as error:
        outcome.error = error
    return outcome


def ending(kind: Kind) -> list[Any]:
    return [done()] if kind == "ollama" else [finish(), usage(7, 1), DONE]


async def closed_soon(request: Recorded) -> None:
    asked_at = time.monotonic()
    async with asyncio.timeout(1):
        await request.closed.wait()
    assert request.peer_closed_at is not None
    assert request.peer_closed_at - asked_at < 1

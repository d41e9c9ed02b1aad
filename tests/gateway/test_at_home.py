"""Two back ends of one model, through gateway and worker: a conversation stays where it was read, and the first of many
with the same beginning goes first."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx

from buffer.backend import BackendSpec
from buffer.settings import Settings
from buffer.store import open_store
from gateway.app import create_app
from tests.buffer.guards.changing import script_text, text_of
from tests.gateway.rig import served, until
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Wait, answer
from tests.rig.scripted import Scripted
from worker.runner import Worker

MODEL = "m"
SYSTEM = "You are terse. " * 300


@dataclass
class Twins:
    client: httpx.AsyncClient
    engines: list[Scripted]

    async def ask(self, *turns: str) -> str:
        """A chat with so many turns, a person's and the model's in turns; gives the answer."""
        said = [{"role": ("user", "assistant")[place % 2], "content": turn} for place, turn in enumerate(turns)]
        body = {"model": MODEL, "messages": [{"role": "system", "content": SYSTEM}, *said]}
        reply = await self.client.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        return str(reply.json()["choices"][0]["message"]["content"])

    def counts(self) -> list[int]:
        return [len(engine.requests) for engine in self.engines]


@asynccontextmanager
async def twins(count: int = 2) -> AsyncIterator[Twins]:
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(Scripted("openai", kind="vllm", models=[MODEL])) for _ in range(count)
        ]
        specs = [BackendSpec(name=f"e{k}", kind="vllm", url=engine.url) for k, engine in enumerate(engines)]
        store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
        stack.push_async_callback(store.aclose)
        made = Settings(backends=specs)
        stop = asyncio.Event()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        worker = Worker(made, store, name="worker")
        group.create_task(worker.run(stop))
        stack.callback(stop.set)
        port = await stack.enter_async_context(served(create_app(made, store)))
        client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20, trust_env=False)
        await stack.enter_async_context(client)

        async def up() -> bool:
            return all(engine.up for engine in worker.pools[0].engines)

        await until(up)
        yield Twins(client, engines)


async def test_a_conversation_goes_on_where_its_turns_were_read() -> None:
    async with twins() as two:
        turns = ["first question"]
        turns.append(await two.ask(*turns))
        home = two.counts().index(1)
        for number in range(6):
            # Something else runs there, so that the other one is the emptier.
            free = asyncio.Event()
            two.engines[home].once.append(lambda _, free=free: iter([Wait(free), *answer("openai", "x")]))  # type: ignore[misc]
            holding = asyncio.create_task(two.ask(*turns, "another question", "and an answer", str(number)))
            before = two.counts()
            await two.engines[home].received(before[home] + 1)
            turns += ["next", await two.ask(*turns, "next")]
            assert two.counts()[1 - home] == 0, "it was sent away from what has been read of it"
            free.set()
            await holding


async def test_what_nobody_has_read_goes_where_most_is_free() -> None:
    """However long a job takes to its first look on a busy machine: here it is left to the emptier one for a second."""
    free = asyncio.Event()
    text = text_of("_elsewhere")
    patient = text.replace("EMPTIER, BEHIND = 250000, 25000,", "EMPTIER, BEHIND = 250000, 1000000,")
    assert patient != text
    with script_text("_elsewhere", patient):
        async with twins() as two:
            await spread(two, free)


async def spread(two: Twins, free: asyncio.Event) -> None:
    for engine in two.engines:
        engine.script = lambda _: iter([Wait(free), *answer("openai", "x")])
    asks = []
    for number in range(6):
        body = {"model": MODEL, "messages": [{"role": "user", "content": f"hello {number}"}]}
        asks.append(asyncio.create_task(two.client.post("/v1/chat/completions", json=body)))

        async def came(count: int = number + 1) -> bool:
            return sum(two.counts()) == count

        await until(came)
    assert two.counts() == [3, 3]
    free.set()
    assert {(await ask).status_code for ask in asks} == {200}


async def test_of_many_with_one_beginning_the_first_goes_first() -> None:
    free = asyncio.Event()

    def script(_: Recorded) -> Iterator[Piece]:
        if len(one.engines[0].requests) == 1:
            yield Wait(free)
        yield from answer("openai", "said")

    async with twins(1) as one:
        engine = one.engines[0]
        engine.script = script
        leader = asyncio.create_task(one.ask("question 0"))
        await engine.received(1)
        siblings = [asyncio.create_task(one.ask(f"question {k}")) for k in range(1, 5)]
        await asyncio.sleep(0.3)
        assert one.counts() == [1], "they would be read anew beside it"
        other = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
        assert (await one.client.post("/v1/chat/completions", json=other)).status_code == 200
        free.set()
        assert {await ask for ask in (leader, *siblings)} == {"said"}

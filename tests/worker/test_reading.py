"""Long prompts that are read in pieces: by a scripted vLLM that notes them, and by a simulated one that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from buffer.backend import BackendSpec
from buffer.job import Chat, Message, Sampling, Usage, encode_chat
from buffer.records import Pulled
from buffer.store import Store
from tests.rig.connection import Recorded
from tests.rig.script import HOLD, Piece, Sleep, Status, Wait, role
from tests.rig.scripted import Scripted
from tests.simulate.serving import served
from tests.worker.rig import Ask, Gate, quiet, settings, spec, working
from worker.pool import Pool
from worker.reading import half_read

METRICS = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",num_gpu_blocks="100000"} 1.0\n'
READ = Status(200, {"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]})
A_WHILE = Sleep(0.08)
"""As long as an engine takes to read a piece that is not so fast as to be given larger ones."""
SLOW_LEASES = {"lease_seconds": 60.0}
"""So that no renewal carries what should have come by itself."""


class Engine(Scripted):
    """A vLLM whose tokens are ``share`` times as many as they are thought to be. ``pieces``: of whose prompts so many
    tokens were to be read, in order; ``on_piece`` says what comes of each."""

    def __init__(self, share: float = 1.0, **more: Any) -> None:
        super().__init__("openai", kind="vllm", judge=self._judge, **more)
        self.pages["/metrics"] = Status(200, METRICS, "text/plain")
        self.count = round(2000 * share)
        self.pieces: list[int] = []
        self.on_piece: Callable[[Recorded], list[Piece]] = lambda _: [A_WHILE, READ]

    def _judge(self, path: str, request: Recorded) -> list[Piece] | None:
        if path == "/tokenize":
            tokens = list(range(self.count))
            return [Status(200, {"count": self.count, "max_model_len": 0, "tokens": tokens})]
        if path != "/v1/completions":
            return None
        self.pieces.append(len(request.json()["prompt"]))
        return self.on_piece(request)

    async def came(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.pieces) < count:
                await asyncio.sleep(0.005)


async def ask(door: Gate, name: str = "long", tokens: int = 2000, **more: Any) -> Ask:
    """A job whose prompt is said to have so many tokens."""
    claims = {"prefill": tokens, "kv": tokens + 10, "long": True, "splits": True}
    return await door.ask(f"marker:{name} words:2", **({"lane": "slow"} | claims | more))


@asynccontextmanager
async def one_engine(store: Store, engine: Engine, **config: Any) -> AsyncIterator[Any]:
    async with engine, working(store, spec(engine), config=settings(**(SLOW_LEASES | config))) as crew:
        yield crew


async def test_a_long_prompt_goes_in_pieces_and_then_its_answer_comes(store: Store, door: Gate) -> None:
    engine = Engine(share=2.0)
    async with one_engine(store, engine):
        long = await ask(door)
        assert (await long.end()).kind == "done"
        assert long.text == "long 1 2"
        # Of its own tokens, the share that the store's estimate is of the whole: 512 of 2,000 at first.
        assert engine.pieces[0] == 1024
        assert engine.pieces == sorted(engine.pieces)
        assert 3000 < engine.pieces[-1] < 4000
        assert len(engine.requests) == 1
    await quiet(door.lanes)


async def test_two_pieces_at_once_and_no_more(store: Store, door: Gate) -> None:
    engine, free = Engine(), asyncio.Event()
    engine.on_piece = lambda _: [A_WHILE, READ] if len(engine.pieces) == 1 else [Wait(free), READ]
    async with one_engine(store, engine) as crew:
        long = await ask(door, tokens=6000)
        await engine.came(3)
        (hand,) = half_read(crew.workers[0].pools[0], crew.workers[0].pools[0].engines[0])
        hand.may_read(hand.upto + 1)
        await door.ask("marker:beside", lane="fast")
        await engine.received(1)
        assert len(engine.pieces) == 3
        free.set()
        assert (await long.end()).kind == "done"
        assert sorted(engine.pieces) == engine.pieces


async def test_it_reads_on_while_no_other_place_is_free(store: Store, door: Gate) -> None:
    engine = Engine()
    async with engine, working(store, spec(engine, max_in_flight=1), config=settings(**SLOW_LEASES)):
        long, behind = await ask(door), await door.ask("marker:behind")
        assert (await long.end()).kind == (await behind.end()).kind == "done"
        assert len(engine.pieces) > 2


@pytest.mark.parametrize("tokens", [400, 2000])
async def test_what_is_short_or_may_not_be_split_goes_whole(store: Store, door: Gate, tokens: int) -> None:
    engine = Engine()
    async with one_engine(store, engine):
        job = await ask(door, tokens=tokens, splits=tokens == 400)
        assert (await job.end()).kind == "done"
        assert not engine.pieces


async def test_short_jobs_go_between_two_pieces(store: Store, door: Gate) -> None:
    engine, free = Engine(), asyncio.Event()
    engine.on_piece = lambda _: [Wait(free), READ]
    async with one_engine(store, engine):
        long = await ask(door, tokens=6000)
        await engine.came(1)
        for lane in ("fast", "thinking"):
            short = await door.ask(f"marker:{lane}", lane=lane, prefill=10)
            assert (await short.end()).kind == "done"
        free.set()
        assert (await long.end()).kind == "done"


async def test_a_client_that_leaves_stops_the_piece_under_way(store: Store, door: Gate) -> None:
    engine, held = Engine(), []
    engine.on_piece = lambda request: held.append(request) or [HOLD]  # type: ignore[func-returns-value]
    async with one_engine(store, engine):
        long = await ask(door)
        await engine.came(1)
        await door.lanes.cancel(long.id)
        assert (await long.end()).kind == "cancelled"
        async with asyncio.timeout(1):
            await asyncio.gather(*(request.closed.wait() for request in held))
        assert not engine.requests
    await quiet(door.lanes)


async def test_a_piece_that_fails_is_an_attempt_that_failed(store: Store, door: Gate) -> None:
    engine = Engine()
    answers: list[list[Piece]] = [[A_WHILE, READ], [Status(500, {"error": "boom"})]]
    engine.on_piece = lambda _: answers.pop(0) if answers else [A_WHILE, READ]
    async with one_engine(store, engine) as crew:
        long = await ask(door)
        assert (await long.end()).kind == "done"
        assert long.text == "long 1 2"
        assert len(engine.pieces) > 4
        attempts = crew.workers[0].pools[0].telemetry.attempts
        counted = {s.labels["result"]: s.value for m in attempts.collect() for s in m.samples if s.value}
        assert counted.keys() >= {"failed", "ok"}


async def test_a_piece_that_is_refused_lets_the_rest_go_whole(store: Store, door: Gate) -> None:
    engine = Engine()
    engine.on_piece = lambda _: [Status(400, {"error": {"message": "no token ids here"}})]
    async with one_engine(store, engine):
        long = await ask(door)
        assert (await long.end()).kind == "done"
        assert long.text == "long 1 2"


async def test_a_prompt_whose_engine_dies_between_two_pieces_goes_elsewhere(store: Store, door: Gate) -> None:
    free = asyncio.Event()
    engine, other = Engine(), Scripted("openai", kind="vllm")
    engine.on_piece = lambda _: [Wait(free), READ]
    config = settings(**SLOW_LEASES)
    async with other, engine, working(store, spec(engine), config=config) as crew:
        pool = crew.workers[0].pools[0]
        long = await ask(door)
        await engine.came(1)
        async with working(store, spec(other), config=config):
            # It waits for its next piece when the engine is seen to be gone.
            stripped(pool)
            free.set()
            await read_up_to(pool, 512)
            engine.pages["/v1/models"] = Status(503)
            engine.script = lambda _: [Status(503)]
            pool.engines[0].look.set()
            assert (await long.end()).kind == "done"
            assert len(other.requests) == 1


def stripped(pool: Pool, *, pulls: bool = True) -> None:
    """From now on no word of a further piece reaches this pool by its pulls, if it ``pulls`` at all."""
    pull = pool.lanes.pull

    async def silent(*args: Any, **more: Any) -> Pulled:
        if not pulls:
            return Pulled([], 0)
        pulled = await pull(*args, **more)
        pulled.pieces.clear()
        return pulled

    pool.lanes.pull = silent  # type: ignore[method-assign]


async def read_up_to(pool: Pool, tokens: int) -> None:
    async with asyncio.timeout(5):
        while not any(hand.had >= tokens for hand in pool.hands.values()):
            await asyncio.sleep(0.005)


async def test_a_grant_whose_word_was_lost_is_heard_of_by_the_next_renewal(store: Store, door: Gate) -> None:
    engine = Engine()
    async with one_engine(store, engine, lease_seconds=0.8) as crew:
        stripped(crew.workers[0].pools[0])
        long = await ask(door, tokens=1500)
        assert (await long.end()).kind == "done"
        assert engine.pieces[0] < engine.pieces[-1]


async def test_another_worker_s_pull_lets_it_read_on(store: Store, door: Gate) -> None:
    engine, free = Engine(), asyncio.Event()
    engine.on_piece = lambda _: [Wait(free), READ]
    async with engine, working(store, spec(engine), config=settings(**SLOW_LEASES)) as crew:
        pool = crew.workers[0].pools[0]
        long = await ask(door)
        await engine.came(1)
        stripped(pool, pulls=False)
        async with working(store, spec(engine), config=settings(**SLOW_LEASES)) as others:
            free.set()
            await read_up_to(pool, 512)
            async with asyncio.timeout(5):
                while not engine.requests:
                    others.workers[0].pools[0].engines[0].wake.set()
                    await asyncio.sleep(0.01)
            assert (await long.end()).kind == "done"
            assert engine.pieces == sorted(engine.pieces)
            assert len(engine.pieces) > 2


async def test_a_worker_that_stops_sends_the_rest_whole(store: Store, door: Gate) -> None:
    engine, free = Engine(), asyncio.Event()
    engine.on_piece = lambda _: [Wait(free), READ]
    async with one_engine(store, engine) as crew:
        long = await ask(door, tokens=20_000)
        await engine.came(1)
        crew.stop.set()
        async with asyncio.timeout(2):
            while not crew.workers[0].pools[0].stopping:
                await asyncio.sleep(0.005)
        free.set()
        assert (await long.end()).kind == "done"
        assert len(engine.pieces) <= 2


async def test_half_read_at_the_end_of_the_drain_time_it_is_given_back(store: Store, door: Gate) -> None:
    engine = Engine()
    engine.on_piece = lambda _: [HOLD]
    async with engine:
        async with working(store, spec(engine), config=settings(drain_seconds=0.1)) as crew:
            long = await ask(door)
            await engine.came(1)
            crew.stop.set()
            await asyncio.gather(*crew.tasks)
            assert (await door.lanes.place(long.id)).state == "waiting"
        engine.on_piece = lambda _: [A_WHILE, READ]
        async with working(store, spec(engine)):
            assert (await long.end()).kind == "done"


async def test_what_has_said_something_goes_on_whole(store: Store, door: Gate) -> None:
    engine = Engine()
    engine.once.append([role(), "long ", HOLD])
    async with one_engine(store, engine, lease_seconds=0.8) as first:
        long = await ask(door)
        await long.begin()
        pieces = len(engine.pieces)
        await first.kill()
        async with working(store, spec(engine), config=settings(lease_seconds=0.8)):
            await long.end()
            assert len(engine.pieces) == pieces


async def test_a_simulated_vllm_remembers_the_pieces(store: Store, door: Gate) -> None:
    words = " ".join(f"word{n}" for n in range(2000))
    model = "simulated-qwen3:14b"
    chat = Chat(model, [Message("user", words)], think="off", sampling=Sampling(temperature=0), max_tokens=8)
    chat.include_usage = chat.stream = True
    async with (
        served(time_scale=0.02) as url,
        working(store, BackendSpec(name="sim", kind="vllm", url=url), config=settings(**SLOW_LEASES)),
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        asked = {"model": model, "messages": [{"role": "user", "content": words}], "max_tokens": 8}
        asked["chat_template_kwargs"] = {"enable_thinking": False}
        prompt = (await client.post("/tokenize", json=asked)).json()["count"]
        long = await ask(door, tokens=prompt, body=encode_chat(chat), model=model)
        assert (await long.end()).kind == "done"
        (usage,) = (event for event in long.events if isinstance(event, Usage))
        assert usage.prompt == prompt
        # All but the last piece of what is nearly four.
        assert usage.cached is not None
        assert usage.cached > prompt - 700
        direct = (await client.post("/v1/chat/completions", json=asked)).json()
        assert long.text == direct["choices"][0]["message"]["content"]

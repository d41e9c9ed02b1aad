"""What workers learn of their back ends, and that they tell one another."""

from __future__ import annotations

import asyncio

import pytest

from buffer.backend import BackendSpec
from buffer.load import BackendState, publish_state, read_states
from buffer.prompt_size import text_size
from buffer.store import Store
from gateway.dialects import openai
from gateway.models import merge
from gateway.prompt import prompt_parts
from tests.rig.script import DONE, Piece, Sleep, finish, role, usage
from tests.rig.scripted import Scripted
from tests.simulate.serving import served
from tests.worker.rig import Crew, Gate, markers, spec, working
from worker.engine import Engine
from worker.learning import MOST_MODELS, Learning

MODEL = "simulated-qwen3:14b"
PROMPT_TOKENS = 3_000


def engine_of(crew: Crew, worker: int = 0) -> Engine:
    return crew.workers[worker].pools[0].engines[0]


async def ask(door: Gate, name: str, tokens: int = PROMPT_TOKENS) -> None:
    text = (f"{name} " * tokens)[: 4 * tokens]
    asked = await door.ask(text, model=MODEL, lane="slow", prefill=tokens, prompt=tokens)
    assert (await asked.end()).kind == "done"


def test_which_prompts_are_read_alone() -> None:
    learning = Learning()
    learning.started("a")
    learning.flowed("a")
    learning.started("b")
    learning.flowed("b")
    assert learning.was_alone("a")
    assert learning.was_alone("b"), "the other one is only being answered"
    for stream in ("c", "d"):
        learning.started(stream)
    for stream in ("c", "d"):
        learning.flowed(stream)
        assert not learning.was_alone(stream)
    for stream in ("a", "b", "c", "d", "e"):
        learning.ended(stream)
    assert not learning.was_alone("a")


def test_models_that_are_gone_are_forgotten() -> None:
    learning = Learning()
    for k in range(3 * MOST_MODELS):
        learning.of(str(k)).writing(100, 1.0)
    told = learning.told([str(k) for k in range(3 * MOST_MODELS)])
    assert len(told) == MOST_MODELS
    learning.adopt({"nobody's": {"token_rate": (5.0, 9.0)}, "190": {"token_rate": (5.0, 9.0)}}, ["190"])
    assert learning.told(["190", "191"]) == {"190": {"token_rate": (5.0, 9.0)}, "191": told["191"]}
    assert learning.slowest_prefill() is None


async def test_rates_of_the_simulated_engine(store: Store, door: Gate) -> None:
    """It reads 6,500 tokens a second and writes 57; here in a tenth of the time."""
    async with served("rtx4090-vllm", time_scale=0.1) as url:
        one = BackendSpec(name="sim", kind="vllm", url=url)
        async with working(store, one) as crew:
            for k in range(3):
                await ask(door, f"text{k}")
            learned = engine_of(crew).learning.of(MODEL)
            told = learned.told()
            # What a shared machine adds makes it slower than it says.
            assert 10_000 < told["prefill_rate"][0] < 70_000
            assert 50 < told["token_rate"][0] < 600
            assert told["tokens_per_byte"][0] == pytest.approx(0.25, rel=0.1)
            assert told["output.slow"][1] > 4
            exposed = crew.workers[0].pools[0].telemetry.exposition(None).decode()
            assert 'estimate_ratio_count{kind="prefill_seconds"} 3.0' in exposed


async def test_a_fresh_worker_goes_by_what_the_others_tell(store: Store, door: Gate) -> None:
    async with Scripted("openai", kind="vllm", models=[MODEL]) as engine:
        one = spec(engine, name="one")
        told = {
            MODEL: {"prefill_rate": (1_234.0, 9.0), "output.slow": (2_000.0, 9.0), "what.else": (1.0, 9.0)},
            "x": {},
        }
        state = BackendState(name="one", kind="vllm", up=True, learned=told)
        await publish_state(store, door.lanes.keys, state, 60)
        async with working(store, one) as crew:
            async with asyncio.timeout(5):
                while engine_of(crew).learning.of(MODEL).prefill_rate is None:
                    await asyncio.sleep(0.005)
            await asyncio.sleep(0)
            async with asyncio.timeout(5):
                while "x" in (found := await read_states(store, door.lanes.keys))[0].learned:
                    await asyncio.sleep(0.005)
        del told[MODEL]["what.else"]
        assert found[0].learned == {MODEL: told[MODEL]}
        (model,) = merge([("default", found[0])], 1).models
        assert (model.figures.prefill_rate, model.figures.expected_output("slow")) == (1_234.0, 2_000)


async def test_a_prompt_that_may_have_been_cached_teaches_no_rate(store: Store, door: Gate) -> None:
    said: list[Piece] = [role(), "a", Sleep(0.01), "b", finish("stop"), usage(9_000, 2), DONE]
    async with Scripted("openai", script=said) as engine, working(store, spec(engine)) as crew:
        asked = await door.ask("marker:x", prefill=1_000, prompt=9_000)
        assert (await asked.end()).kind == "done"
        assert markers(engine) == ["x"]
        assert engine_of(crew).learning.told(["m-oai"])["m-oai"].keys() == {"output.normal"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"role":"user","content":"Hi"}]}',
        '{"messages":[{"role":"user","content":[{"type":"text","text":"Öl 水"}]}]}'.encode(),
        b'{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]}',
    ],
)
def test_workers_measure_what_gateways_do(body: bytes) -> None:
    chat = openai.parse_chat(body.replace(b"{", b'{"model":"m",', 1), allow_image_urls=False)
    parts = list(prompt_parts(chat))
    assert text_size(chat) == (sum(len(part) for part in parts), len(parts))
    assert all(isinstance(part, bytes) for part in parts)

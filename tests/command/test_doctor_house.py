"""What the doctor reads off those that run: clocks, versions, Open WebUI, and engines that are too narrow for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from buffer import load
from buffer.backend import BackendSpec
from buffer.gateways import GatewayPresence, publish_gateway, read_gateways
from buffer.keys import Keys
from buffer.lanes import Lanes
from buffer.load import BackendState, WorkerPresence, publish_state, publish_worker, read_states, read_workers
from buffer.settings import Settings
from buffer.store import Store, open_store
from doublebuffer import VERSION
from gateway import noting
from gateway.app import create_app
from gateway.delivery import Timing
from tests.command.test_doctor import engine, examined, mistakes, only, spec
from tests.gateway.rig import MODEL, rig, served, until
from tests.rig.connection import Recorded
from tests.rig.engine import Engine
from tests.rig.redis_server import RedisServer, run_redis
from tests.rig.script import Piece
from tests.worker.rig import working

KEYS = Keys()
TITLE = "### Task:\nGenerate a concise, 3-5 word title with an emoji for the chat"


@pytest.fixture
async def store() -> AsyncIterator[tuple[Store, RedisServer]]:
    with run_redis() as server:
        store = await open_store(server.url)
        yield store, server
        await store.aclose()


Home = tuple[Store, RedisServer]


def gateway(**facts: object) -> GatewayPresence:
    return GatewayPresence(**{"id": "g1", "version": VERSION, "started_at": time.time(), **facts})  # type: ignore[arg-type]


async def worker(store: Store, id: str = "w1", version: str = VERSION) -> None:
    presence = WorkerPresence(id=id, started_at=time.time(), version=version)
    await publish_worker(store, KEYS, presence, 20.0)


def settings(server: RedisServer, *specs: BackendSpec) -> Settings:
    return Settings(redis_url=server.url, backends=list(specs))


async def test_all_who_run_agree(store: Home, capsys: pytest.CaptureFixture[str]) -> None:
    await publish_gateway(store[0], KEYS, gateway(chats=500, users=1, tasks=4), 20.0)
    await worker(store[0])
    async with engine("llamacpp") as one:
        findings = await examined(capsys, settings(store[1], spec(one)))
    assert mistakes(findings) == []
    texts = {finding.text for finding in findings}
    assert {"1 gateway and 1 worker run", "those of gateways and workers agree with Redis'"} <= texts
    assert "sends its task and user headers" in texts


async def test_nobody_works(store: Home, capsys: pytest.CaptureFixture[str]) -> None:
    await publish_gateway(store[0], KEYS, gateway(), 20.0)
    async with engine("llamacpp") as one:
        only(await examined(capsys, settings(store[1], spec(one))), "no worker runs", "start `doublebuffer worker`")


async def test_a_clock_that_is_off(
    store: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker(store[0], "right")
    with monkeypatch.context() as patch:
        now = time.time
        patch.setattr(load.time, "time", lambda: now() - 45.0)
        await worker(store[0], "slow")
    async with engine("llamacpp") as one:
        findings = await examined(capsys, settings(store[1], spec(one)))
    only(findings, "off from Redis': that of worker slow by -45 s", "NTP")


async def test_different_versions(store: Home, capsys: pytest.CaptureFixture[str]) -> None:
    await publish_gateway(store[0], KEYS, gateway(), 20.0)
    await worker(store[0], "old", "0.0.9")
    await worker(store[0], "older", "")
    async with engine("llamacpp") as one:
        findings = await examined(capsys, settings(store[1], spec(one)))
    only(findings, f"different versions: 0.0.9, {VERSION} and an older one", "to one version")


async def test_an_open_webui_without_headers(store: Home, capsys: pytest.CaptureFixture[str]) -> None:
    noted = gateway(tasks=9, tasks_without_header=7, tasks_without_user=9)
    await publish_gateway(store[0], KEYS, noted, 20.0)
    await worker(store[0])
    async with engine("llamacpp") as one:
        first, second = mistakes(await examined(capsys, settings(store[1], spec(one))))
    assert first.text == "7 of its 9 background requests came without the header that says so"
    assert "X-OpenWebUI-Task" in first.remedy
    assert second.text.startswith("9 of its 9 background requests did not tell for whom")
    assert "ENABLE_FORWARD_USER_INFO_HEADERS" in second.remedy


@pytest.mark.parametrize(("num_ctx", "expected"), [(None, "Ollama's own is 4096"), (8192, "num_ctx is 8192")])
async def test_prompts_that_an_ollama_cuts_off(
    store: Home, capsys: pytest.CaptureFixture[str], num_ctx: int | None, expected: str
) -> None:
    await publish_gateway(store[0], KEYS, gateway(prompts={"m-oll": 11_000, "another": 90_000}), 20.0)
    await worker(store[0])
    async with engine("ollama") as one:
        findings = await examined(capsys, settings(store[1], spec(one, num_ctx=num_ctx)))
    only(findings, f"{expected}, but prompts of up to 11000 tokens came in", "set num_ctx = 16384")


@pytest.mark.parametrize("slots", [1, 4])
async def test_a_llama_cpp_with_one_slot_that_many_use(
    store: Home, capsys: pytest.CaptureFixture[str], slots: int
) -> None:
    await publish_state(store[0], KEYS, BackendState(name="here", kind="llamacpp", up=True, slots=slots), 20.0)
    await worker(store[0])
    async with engine("llamacpp") as one:
        for users in (1, 7):
            await publish_gateway(store[0], KEYS, gateway(chats=60, users=users), 20.0)
            findings = await examined(capsys, settings(store[1], spec(one)))
            assert len(mistakes(findings)) == (slots == 1 and users == 7)
    if slots == 1:
        only(findings, "answers one request at a time, and 7 people used it", "--parallel 4")


@pytest.mark.parametrize("parallel", [1, 4])
async def test_an_ollama_that_many_use_one_by_one(
    store: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, parallel: int
) -> None:
    """Gateway, worker and an Ollama with so many places: five people at once, several times."""
    monkeypatch.setattr(noting, "TELL_S", 0.05)
    places = asyncio.Semaphore(parallel)
    async with engine("ollama", engine=Engine("ollama", thinks=False, delay_s=0.002)) as one:

        async def serve(request: Recorded) -> AsyncIterator[Piece]:
            async with places:
                async for piece in one.engine.script(request.body):
                    yield piece

        one.script = serve
        config = settings(store[1], spec(one, num_ctx=32768))
        async with (
            working(store[0], *config.backends, config=config),
            served(create_app(config, store[0])) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client,
        ):

            async def ask(user: int) -> None:
                for number in range(5):
                    body = {"model": "m-oll", "messages": [{"role": "user", "content": f"words:40 {number}"}]}
                    headers = {"x-openwebui-user-id": f"u{user}"}
                    answer = await client.post("/v1/chat/completions", json=body, headers=headers)
                    assert answer.status_code == 200

            await asyncio.gather(*(ask(user) for user in range(5)))
            lanes = Lanes(store[0])
            before = time.time()
            await lanes.look([presence.id for presence in await read_workers(store[0], KEYS)], "here")

            async def is_told() -> bool:
                (state,) = await read_states(store[0], KEYS)
                return state.probed_at > before

            await until(is_told)
            findings = await examined(capsys, config)
    if parallel == 1:
        only(findings, "answers one request at a time, and 5 people used it", "OLLAMA_NUM_PARALLEL=4")
    else:
        assert mistakes(findings) == []


async def test_a_gateway_notes_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two people, one of Open WebUI's titles in each of three settings, and the longest prompt."""
    monkeypatch.setattr(noting, "TELL_S", 0.05)
    task = "title_generation"
    headers = ({}, {"x-openwebui-task": task}, {"x-openwebui-task": task, "x-openwebui-user-id": "ann"})
    async with rig(timing=Timing(title_least_s=0.0, title_most_s=0.0)) as it:

        async def ask(text: str, headers: dict[str, str]) -> None:
            body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": False}
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(it.client.post("/v1/chat/completions", json=body, headers=headers))
                await it.hands.answer("Yes")
            assert asking.result().status_code == 200

        for more in headers:
            await ask(TITLE, more)
        await ask("word " * 2000, {"x-openwebui-user-id": "bob"})

        async def is_told() -> bool:
            found = await read_gateways(it.store, it.lanes.keys)
            return bool(found) and found[0].chats == 4

        await until(is_told)
        (told,) = await read_gateways(it.store, it.lanes.keys)
        assert (told.tasks, told.tasks_without_header, told.tasks_without_user) == (3, 1, 2)
        assert told.users == 3
        assert told.version == VERSION
        assert 1_500 < told.prompts["qwen3-0.6b"] < 4_000

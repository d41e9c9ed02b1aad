from __future__ import annotations

import time
from typing import Any

import pytest

from backends.base import BackendError, Probe
from buffer.backend import Kind, ModelInfo
from tests.backends.rig import KINDS, backend, scripted
from tests.rig.engine import METRICS
from tests.rig.script import HEAD, HOLD, Status
from tests.rig.scripted import Scripted


async def look(engine: Scripted, kind: Kind) -> Probe:
    async with backend(engine.url, kind) as of:
        return await of.probe()


async def test_vllm() -> None:
    async with scripted("vllm", models=["a", "b"], context=1024) as engine:
        found = await look(engine, "vllm")
    assert found == Probe(
        models=[ModelInfo("a", context_length=1024), ModelInfo("b", context_length=1024)],
        kv_tokens=16_000,
        prefix_caching=True,
        waiting=2,
        running=4,
    )


async def test_vllm_that_forgets_prompts_or_does_not_tell() -> None:
    told = 'enable_prefix_caching="True"'
    async with scripted("vllm") as engine:
        for found, other in ((False, 'enable_prefix_caching="False"'), (None, 'other="True"')):
            engine.pages["/metrics"] = Status(200, METRICS.replace(told, other))
            assert (await look(engine, "vllm")).prefix_caching is found


@pytest.mark.parametrize("blocks", ["None", "0", ""])
async def test_vllm_that_tells_no_cache_size(blocks: str) -> None:
    async with scripted("vllm") as engine:
        engine.pages["/metrics"] = Status(200, METRICS.replace('num_gpu_blocks="1000"', f'num_gpu_blocks="{blocks}"'))
        assert (await look(engine, "vllm")).kv_tokens is None
        del engine.pages["/metrics"]
        found = await look(engine, "vllm")
        assert (found.kv_tokens, found.waiting, found.running, len(found.models)) == (None, None, None, 1)


async def test_vllm_with_counts_that_are_no_numbers() -> None:
    async with scripted("vllm") as engine:
        engine.pages["/metrics"] = Status(200, "vllm:num_requests_waiting NaN\nvllm:num_requests_running +Inf\n")
        found = await look(engine, "vllm")
        assert (found.waiting, found.running, len(found.models)) == (None, None, 1)


async def test_vllm_whose_engine_is_dead() -> None:
    async with scripted("vllm") as engine:
        engine.pages["/health"] = Status(503)
        assert (await failure(engine, "vllm")).kind == "refused"


async def test_llama_cpp() -> None:
    async with scripted("llamacpp", models=["a"], slots=3, context=2048) as engine:
        found = await look(engine, "llamacpp")
        model = ModelInfo(
            "a", context_length=2048, size=5_200_000_000, format="gguf",
            capabilities=["completion", "tools", "thinking"], parameter_count=8_200_000_000, embedding_length=4096,
        )  # fmt: skip
        assert found == Probe(models=[model], slots=3)
        engine.pages["/metrics"] = Status(200, "llamacpp:requests_processing 3\nllamacpp:requests_deferred 4\n")
        engine.pages["/props"]["modalities"] = {"vision": True, "audio": False}
        found = await look(engine, "llamacpp")
        assert (found.running, found.waiting) == (3, 4)
        assert "vision" in found.models[0].capabilities
        del engine.pages["/props"]
        found = await look(engine, "llamacpp")
        assert (found.slots, found.models[0].context_length) == (None, 0)


async def test_llama_cpp_that_is_loading() -> None:
    loading = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    async with scripted("llamacpp") as engine:
        engine.pages["/health"] = Status(503, loading)
        error = await failure(engine, "llamacpp")
    assert (error.kind, error.message) == ("refused", "Back end 'b' takes no request now: Loading model")


async def test_any_openai_server() -> None:
    cards = [{"id": "a", "context_length": 99}, {"id": "b", "max_model_len": 7}, {"id": 5}, "x"]
    async with scripted("openai") as engine:
        engine.pages["/v1/models"] = {"data": cards}
        found = await look(engine, "openai")
        assert found.models == [ModelInfo("a", context_length=99), ModelInfo("b", context_length=7)]
        engine.pages["/v1/models"] = {"data": None}
        assert (await look(engine, "openai")).models == []


async def test_ollama() -> None:
    async with scripted("ollama", models=["a:latest", "b:8b"], context=40960) as engine:
        found = await look(engine, "ollama")
    assert found.loaded == ["a:latest"]
    assert [model.id for model in found.models] == ["a:latest", "b:8b"]
    assert found.models[1] == ModelInfo(
        "b:8b", context_length=40960, size=5_200_000_000, family="qwen3", parameter_size="8.2B", quantization="Q4_K_M",
        format="gguf", digest="digest-of-b:8b", modified_at="2026-11-01T08:00:00Z",
        capabilities=["completion", "tools", "thinking"], architecture="qwen3", parameter_count=8_200_000_000,
        embedding_length=4096,
    )  # fmt: skip


async def test_ollama_is_asked_once_for_each_digest() -> None:
    async with scripted("ollama", models=["a", "b"]) as engine, backend(engine.url, "ollama") as of:
        for _ in range(3):
            await of.probe()
        assert [request.json() for request in engine.others if request.path == "/api/show"] == [
            {"model": "a"},
            {"model": "b"},
        ]
        engine.pages["/api/tags"]["models"][0]["digest"] = "new"
        await of.probe()
        assert [request.json() for request in engine.others if request.path == "/api/show"][2:] == [{"model": "a"}]


async def test_ollama_that_shows_nothing_still_lists() -> None:
    async with scripted("ollama") as engine:
        engine.pages["/api/show"] = Status(500, {"error": "boom"})
        del engine.pages["/api/ps"]
        found = await look(engine, "ollama")
    assert [model.id for model in found.models] == ["m-oll"]
    assert found.models[0].capabilities == []


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_simulated_or_doublebuffer_itself_is_known(kind: Kind) -> None:
    async with scripted(kind) as engine:
        found = await look(engine, kind)
        assert (found.simulated, found.doublebuffer) == (False, False)
    async with scripted(kind, simulated=True, headers={"X-Doublebuffer": "1"}) as engine:
        found = await look(engine, kind)
        assert (found.simulated, found.doublebuffer) == (True, True)


@pytest.mark.parametrize("kind", KINDS)
async def test_looks_take_no_slot_and_carry_the_key(kind: Kind) -> None:
    async with scripted(kind) as engine, backend(engine.url, kind, api_key="k") as of:
        await of.probe()
        assert engine.requests == []
        assert {request.headers["authorization"] for request in engine.others} == {"Bearer k"}


async def failure(engine: Scripted, kind: Kind) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await look(engine, kind)
    return caught.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (Status(404, "page not found", "text/plain"), "failed"),
        (Status(401, {"error": "Unauthorized"}), "client"),
        (Status(500, "boom"), "failed"),
        (Status(200, "<html>", "text/html"), "failed"),
    ],
)
async def test_lists_that_are_none(kind: Kind, page: Any, expected: str) -> None:
    async with scripted(kind) as engine:
        engine.pages["/api/tags" if kind == "ollama" else "/v1/models"] = page
        assert (await failure(engine, kind)).kind == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("page", [5, [1], {"data": 5, "models": 5}, {"data": {"a": 1}, "models": "ab"}])
async def test_lists_of_another_kind_are_empty(kind: Kind, page: Any) -> None:
    async with scripted(kind) as engine:
        engine.pages["/api/tags" if kind == "ollama" else "/v1/models"] = Status(200, page)
        assert (await look(engine, kind)).models == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", [[HOLD], [HEAD, HOLD]])
async def test_silent_server_is_not_waited_for(kind: Kind, script: Any) -> None:
    async with scripted(kind) as engine:
        for path in engine.pages:
            engine.pages[path] = script
        async with backend(engine.url, kind, connect_s=0.1) as of:
            started_at = time.monotonic()
            with pytest.raises(BackendError) as caught:
                await of.probe()
        assert time.monotonic() - started_at < 2.0
    assert caught.value.kind == "refused"


@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_there(kind: Kind) -> None:
    async with scripted(kind) as engine:
        url = engine.url
    async with backend(url, kind) as of:
        with pytest.raises(BackendError) as caught:
            await of.probe()
    assert caught.value.kind == "refused"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_look_takes_no_place(kind: Kind) -> None:
    """Nothing is generated for it, and nothing waits in the engine's queue."""
    async with scripted(kind) as engine:
        await look(engine, kind)
        assert engine.requests == []
        assert engine.others

"""Model lists of both APIs, and which spelling means which model."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from buffer.backend import ModelInfo
from buffer.load import BackendState, WorkerPresence, publish_worker
from gateway.delivery import Timing
from gateway.models import Models, merge
from tests.gateway.rig import MODEL, PLAIN, rig


def state(name: str, *ids: str, **more: Any) -> tuple[str, BackendState]:
    facts: dict[str, Any] = {"name": name, "kind": "vllm", "up": True, "models": [ModelInfo(id) for id in ids]}
    return "default", BackendState(**(facts | more))


def queues(models: Models, *names: str) -> list[str | None]:
    return [found.queue if (found := models.find(name)) else None for name in names]


def test_spellings_of_one_model_over_two_back_ends() -> None:
    models = merge([state("a", "Qwen/Qwen3-14B-FP8"), state("b", "qwen3:14b-fp8", kind="ollama")], 1)
    names = ("qwen3:14b-fp8", "qwen3-14b-fp8", "Qwen/Qwen3-14B-FP8", "qwen3:14b-fp8:latest", "hf.co/Qwen/Qwen3-14B-FP8")
    assert set(queues(models, *names)) == {"qwen3-14b-fp8"}
    assert [model.name for model in models.models] == ["qwen3:14b-fp8"]
    assert queues(models, "other/qwen3-14b-fp8", "qwen3", "qwen3:14b") == [None, None, None]


def test_of_a_back_end_that_names_no_organisation_any_will_do() -> None:
    models = merge([state("a", "qwen3:14b-fp8")], 1)
    assert queues(models, "Qwen/Qwen3-14B-FP8") == ["qwen3-14b-fp8"]


def test_two_organisations_are_never_guessed_between() -> None:
    models = merge([state("a", "Qwen/M1"), state("b", "Other/M1"), state("c", "Qwen/M1")], 1)
    assert queues(models, "m1", "qwen/m1", "other/m1", "third/m1") == [None, "qwen/m1", "other/m1", None]
    assert [len(model.offers) for model in models.models] == [1, 2]


def test_a_bare_name_beside_two_organisations_is_itself() -> None:
    models = merge([state("a", "Qwen/M1"), state("b", "Other/M1"), state("c", "m1")], 1)
    assert queues(models, "m1", "qwen/m1") == ["/m1", "qwen/m1"]


def test_aliases_are_models_too() -> None:
    models = merge([state("a", "m1", aliases={"gpt-4o": "m1", "Gone": "m9"})], 1)
    assert queues(models, "GPT-4o", "gone", "m1") == ["gpt-4o", "gone", "m1"]
    found = models.find("gpt-4o")
    assert found is not None
    assert found.info.id == "m1"


def test_a_model_is_up_while_one_back_end_is() -> None:
    models = merge([state("a", "m1", up=False), state("b", "m1"), state("c", "m2", up=False)], 1)
    assert [(model.name, model.up) for model in models.models] == [("m1", True), ("m2", False)]


@pytest.mark.parametrize(
    ("name", "capabilities", "thinks"),
    [
        ("qwen3:0.6b", [], True),
        ("qwen3:0.6b", ["completion"], False),
        ("llama3.2", [], False),
        ("llama3.2", ["completion", "thinking"], True),
        ("who-knows", [], True),
    ],
)
def test_whether_it_thinks(name: str, capabilities: list[str], thinks: bool) -> None:
    (model,) = merge([state("a", models=[ModelInfo(name, capabilities=capabilities)])], 1).models
    assert model.can_think is thinks


async def test_lists() -> None:
    async with rig() as r:
        await r.hands.show(r.hands.state(name="v", kind="vllm", models=[ModelInfo("Qwen/Qwen3-8B"), ModelInfo(PLAIN)]))
        await r.hands.show(r.hands.state(name="dead", up=False, models=[]))
        tags = (await r.client.get("/api/tags")).json()["models"]
        assert {entry["name"] for entry in tags} == {MODEL, PLAIN, "Qwen/Qwen3-8B:latest"}
        assert all(entry["name"] == entry["model"] for entry in tags)
        assert len(tags) == 3
        got = await r.client.get("/v1/models")
        assert got.headers["content-type"].startswith("application/json")
        assert {entry["id"] for entry in got.json()["data"]} == {MODEL, PLAIN, "Qwen/Qwen3-8B"}


@pytest.mark.parametrize("spelling", ["Qwen/Qwen3-8B", "Qwen%2FQwen3-8B", "qwen3:8b", "qwen3-8b:latest"])
async def test_one_model(spelling: str) -> None:
    async with rig() as r:
        await r.hands.show(
            r.hands.state(name="v", kind="vllm", models=[ModelInfo("Qwen/Qwen3-8B", context_length=4096)])
        )
        got = await r.client.get(f"/v1/models/{spelling}")
        assert got.json()["id"] == "Qwen/Qwen3-8B"
        shown = (await r.client.post("/api/show", json={"model": "qwen3:8b"})).json()
        assert shown["model_info"]["qwen3.context_length"] == 4096


async def test_unknown_and_unnamed_models() -> None:
    async with rig() as r:
        got = await r.client.get("/v1/models/nobody")
        assert (got.status_code, got.json()["error"]["code"]) == (404, "model_not_found")
        got = await r.client.post("/api/show", json={"model": "nobody"})
        assert (got.status_code, got.json()) == (404, {"error": "model 'nobody' not found"})
        got = await r.client.post("/api/show", json={})
        assert (got.status_code, got.json()) == (400, {"error": "model is required"})


async def test_what_is_in_memory() -> None:
    async with rig() as r:
        await r.hands.show(r.hands.state(loaded=[PLAIN]))
        await r.hands.show(r.hands.state(name="v", kind="vllm", models=[ModelInfo("one")]))
        await r.hands.show(r.hands.state(name="down", kind="vllm", models=[ModelInfo("two")], up=False))
        found = (await r.client.get("/api/ps")).json()["models"]
        assert {entry["model"] for entry in found} == {PLAIN, "one:latest"}


async def test_lists_are_quick_when_there_is_nothing() -> None:
    async with rig(show=False, timing=Timing(cold_s=0)) as r, asyncio.timeout(2):
        assert (await r.client.get("/api/tags")).json() == {"models": []}
        assert (await r.client.get("/v1/models")).json() == {"object": "list", "data": []}
        assert (await r.client.get("/api/ps")).json() == {"models": []}


async def test_lists_wait_for_back_ends_while_all_is_only_starting() -> None:
    async with rig(show=False) as r, asyncio.TaskGroup() as group:
        keys = r.lanes.keys
        await publish_worker(r.store, keys, WorkerPresence(id="early", started_at=0.0), 60)
        asked = group.create_task(r.client.get("/api/tags"))
        await asyncio.sleep(0.2)
        await r.hands.show()
        assert len((await asked).json()["models"]) == 2

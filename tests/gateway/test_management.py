"""Models come to real Ollama routes and go, through gateway, worker and scripted back ends."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import ollama
import pytest

from buffer.setting_values import ApiKey
from gateway.delivery import Timing
from tests.gateway.management_rig import keepers
from tests.gateway.rig import Wire, lines, rig
from tests.rig.script import CUT, HOLD, Status, Wait
from tests.rig.shelf import DIGEST

HERE = "qwen3:0.6b"


async def test_the_official_client_moves_models(tmp_path: Path) -> None:
    async with keepers("one") as k:
        client = ollama.AsyncClient(k.url)
        told = [part async for part in await client.pull("llama3.2:1b", stream=True)]
        assert [part.status for part in told] == ["pulling manifest", *[f"pulling {DIGEST[7:19]}"] * 2, "success"]
        assert [(part.completed, part.total, part.digest) for part in told[1:3]] == [
            (40, 100, DIGEST),
            (100, 100, DIGEST),
        ]
        # No wait between the word and the list.
        assert {model.model for model in (await client.list()).models} == {HERE, "llama3.2:1b"}
        assert (await client.show("llama3.2:1b")).modelinfo
        assert (await client.pull("smollm2", stream=False)).status == "success"
        assert (await client.copy(HERE, "mine")).status == "success"
        assert {model.model for model in (await client.list()).models} >= {"smollm2:latest", "mine:latest"}
        file = tmp_path / "adapter"
        file.write_bytes(b"x" * 100_000)
        digest = await client.create_blob(file)
        assert k.shelf("one").blobs[digest] == file.read_bytes()
        made = await client.create("made", from_=HERE, adapters={"adapter": digest}, stream=False)
        assert made.status == "success"
        assert (await client.push("mine", stream=False)).status == "success"
        assert (await client.delete("mine")).status == "success"
        assert "mine:latest" not in {model.model for model in (await client.list()).models}
        assert [model.model for model in (await client.ps()).models] == [HERE]
        for call in (client.delete("mine"), client.copy("mine", "other"), client.push("mine", stream=False)):
            with pytest.raises(ollama.ResponseError, match="not found") as refused:
                await call
            assert refused.value.status_code == 404
        told_of_none = await client.pull("no-such", stream=True)
        with pytest.raises(ollama.ResponseError, match="pull model manifest: file does not exist"):
            [part async for part in told_of_none]


async def test_a_pulled_model_can_be_used_at_once() -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        assert (await client.post("/api/pull", json={"model": "new:1b", "stream": False})).status_code == 200
        body = {"model": "new:1b", "messages": [{"role": "user", "content": "marker:abc"}], "stream": False}
        async with asyncio.timeout(3):
            assert (await client.post("/api/chat", json=body)).json()["message"]["content"].startswith("abc")


async def test_open_webuis_bodies() -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        body = {"name": "gemma3:1b", "model": "gemma3:1b", "insecure": True}
        got = await client.post("/api/pull", json=body)
        assert got.headers["content-type"] == "application/x-ndjson"
        assert lines(got.text)[-1] == {"status": "success"}
        assert k.shelf("one").requests[-1].json() == body
        assert (await client.request("DELETE", "/api/delete", json={"model": "gemma3:1b"})).status_code == 200
        got = await client.request("DELETE", "/api/delete", json={"model": "gemma3:1b"})
        assert (got.status_code, got.json()) == (404, {"error": "model 'gemma3:1b' not found"})
        assert got.headers["content-type"].startswith("application/json")


async def test_lines_come_as_they_are_told_and_the_last_one_again_while_nothing_new_is() -> None:
    go = asyncio.Event()
    async with keepers("one", timing=Timing(heartbeat_s=0.05)) as k:
        k.shelf("one").held = [Wait(go)]
        wire = await Wire.post(k.port, "/api/pull", {"model": "new:1b"})
        for _ in range(3):
            await wire.until(b'"completed":40}\n')
        go.set()
        rest = await wire.until(b"success")
        assert b'"completed":100' in rest
        await wire.leave()


@pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/api/push"])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_it(path: str, stream: bool) -> None:
    async with keepers("one") as k:
        k.shelf("one").script = [{"status": "pulling manifest"}, HOLD]
        wire = await Wire.post(k.port, path, {"model": HERE, "stream": stream})
        if stream:
            await wire.until(b"manifest")
        async with asyncio.timeout(5):
            await k.shelf("one").came.wait()
            await wire.leave()
            await k.shelf("one").requests[-1].closed.wait()


@pytest.mark.parametrize(
    "script", [[{"status": "pulling manifest"}, CUT], [{"status": "pulling manifest"}], [b"x" * 300_000, HOLD]]
)
async def test_a_pull_that_breaks_off_ends_with_an_error_line(script: list[Any]) -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        k.shelf("one").script = script
        got = await client.post("/api/pull", json={"model": "new:1b"})
        last = lines(got.text)[-1]
        assert isinstance(last["error"], str)
        assert last["error"]
        k.shelf("one").script = script
        told = await ollama.AsyncClient(k.url).pull("new:1b", stream=True)
        with pytest.raises(ollama.ResponseError):
            [part async for part in told]


@pytest.mark.parametrize("path", ["/api/pull", "/api/create", "/api/push"])
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ([{"status": "pulling manifest"}], "before it was done"),
        ([{"status": "pulling manifest"}, CUT], ""),
        ([Status(200, "<html>Sign in</html>", "text/html")], "before it was done"),
        ([Status(200, b"")], "before it was done"),
        ([{"status": "pulling manifest"}, {"error": "disk full"}], "disk full"),
    ],
)
async def test_one_in_one_piece_that_does_not_succeed_is_no_success(path: str, script: list[Any], words: str) -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        k.shelf("one").script = script
        got = await client.post(path, json={"model": HERE if path == "/api/push" else "new:1b", "stream": False})
        assert got.status_code == 502
        assert words in got.json()["error"]


async def test_error_lines_and_blank_lines_of_the_back_end() -> None:
    async with keepers("one") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        k.shelf("one").script = [b'{"status":"a"}\n\n  \n{"err', b'or":"disk full"}\n']
        assert (await client.post("/api/pull", json={"model": "x"})).text == '{"status":"a"}\n{"error":"disk full"}\n'
        k.shelf("one").script = [b'{"error":{"code":1}}\n']
        assert isinstance(lines((await client.post("/api/pull", json={"model": "x"})).text)[0]["error"], str)
        k.shelf("one").script = [Status(500, {"error": "out of disk"})]
        got = await client.post("/api/pull", json={"model": "x"})
        assert got.status_code >= 500
        assert "out of disk" in got.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/api/pull", b"", "missing request body"),
        ("/api/pull", b"{}", "model is required"),
        ("/api/pull", b"[]", "must be a JSON object"),
        ("/api/push", b'{"model":3}', "model"),
        ("/api/create", b'{"model":"a","files":["x"]}', "files"),
        ("/api/copy", b'{"source":"a"}', "destination is required"),
        ("/api/pull", b'{"model":"a","stream":"yes"}', "stream"),
    ],
)
async def test_bodies_that_are_none(path: str, body: bytes, error: str) -> None:
    async with rig() as r:
        got = await r.client.post(path, content=body)
        assert got.status_code == 400
        assert error in got.json()["error"]


class TestWithoutOllama:
    async def test_a_served_model_is_there_already(self) -> None:
        async with keepers(vllm="Qwen/Qwen3-8B") as k:
            client = ollama.AsyncClient(k.url)
            told = [part.status async for part in await client.pull("qwen3-8b", stream=True)]
            assert told == ["pulling manifest", "success"]
            assert (await client.pull("Qwen/Qwen3-8B", stream=False)).status == "success"

    async def test_all_else_is_refused(self) -> None:
        async with keepers(vllm="Qwen/Qwen3-8B") as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
            for method, path, body in (
                ("POST", "/api/pull", {"model": "other"}),
                ("POST", "/api/push", {"model": "qwen3-8b"}),
                ("POST", "/api/create", {"model": "x", "from": "qwen3-8b"}),
                ("POST", "/api/copy", {"source": "qwen3-8b", "destination": "x"}),
                ("DELETE", "/api/delete", {"model": "qwen3-8b"}),
                ("POST", f"/api/blobs/{DIGEST}", {}),
            ):
                got = await client.request(method, path, json=body)
                assert (got.status_code, list(got.json())) == (400, ["error"]), path
                assert "Ollama" in got.json()["error"]


async def test_keys_are_asked_for_and_stay_here() -> None:
    keys = [ApiKey(name="ann", key="k-1")]
    async with keepers("one", api_keys=keys) as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        for method, path in (("POST", "/api/pull"), ("DELETE", "/api/delete"), ("POST", f"/api/blobs/{DIGEST}")):
            assert (await client.request(method, path, json={"model": "x"})).status_code == 401
        assert not k.shelf("one").requests
        headers = {"Authorization": "Bearer k-1", "X-Api-Key": "k-1", "Cookie": "k-1"}
        assert (await client.post("/api/pull", json={"model": "x"}, headers=headers)).status_code == 200
        assert "k-1" not in json.dumps(k.shelf("one").requests[-1].headers)


async def test_a_name_that_the_settings_gave_is_not_deleted() -> None:
    async with keepers("one", aliases={"gpt-4o": HERE}) as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        got = await client.request("DELETE", "/api/delete", json={"model": "gpt-4o"})
        assert got.status_code == 400
        assert HERE in got.json()["error"]
        assert k.shelf("one").models == [HERE]


async def test_a_key_may_be_kept_from_moving_models() -> None:
    keys = [ApiKey(name="ann", key="k-1", models=False), ApiKey(name="ops", key="k-2")]
    async with keepers("one", api_keys=keys) as k, httpx.AsyncClient(base_url=k.url, timeout=20) as client:
        digest = "sha256:" + "ab" * 32
        body = {"model": "m", "source": "m", "destination": "n", "stream": False}
        for method, path in (
            *(("POST", f"/api/{verb}") for verb in ("pull", "push", "create", "copy")),
            *(("DELETE", "/api/delete"), ("POST", f"/api/blobs/{digest}"), ("HEAD", f"/api/blobs/{digest}")),
            *(("POST", f"{k.url}//api/pull"), ("POST", "/api/pull/"), ("POST", "/api%2fpull")),
        ):
            got = await client.request(method, path, json=body, headers={"Authorization": "Bearer k-1"})
            assert got.status_code == 403, path
        assert not k.shelf("one").requests
        got = await client.get("/api/tags", headers={"Authorization": "Bearer k-1"})
        assert got.status_code == 200
        got = await client.post("/api/pull", json=body, headers={"Authorization": "Bearer k-2"})
        assert got.status_code == 200

"""Mistakes that people make with Redis and engines, planted for real; the doctor finds each, and says what to do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from buffer.backend import BackendSpec
from buffer.setting_sources import load_settings
from buffer.settings import Settings
from buffer.store import open_store
from doublebuffer.doctor import run_doctor
from doublebuffer.doctor_redis import redis_findings
from doublebuffer.doctor_report import Finding, Report
from gateway.app import create_app
from tests.gateway.rig import served
from tests.rig.engine import Engine
from tests.rig.processes import run_to_end
from tests.rig.redis_server import RedisServer, free_port, run_redis
from tests.rig.script import Status
from tests.rig.scripted import Scripted


async def examined(capsys: pytest.CaptureFixture[str], settings: Settings) -> list[Finding]:
    """What the doctor says as JSON, which is what it says to a person."""
    capsys.readouterr()
    code = await run_doctor(lambda: settings, [], as_json=True)
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)
    assert report.healthy == (code == 0) == all(finding.level != "wrong" for finding in report.findings)
    for finding in report.findings:
        assert bool(finding.remedy) == (finding.level != "fine")
        assert "\n" not in str(finding).removesuffix(f"\n  → {finding.remedy}")
    return report.findings


def mistakes(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "wrong"]


def only(findings: Sequence[Finding], text: str, remedy: str) -> None:
    """There is just this mistake."""
    (found,) = mistakes(findings)
    assert text in found.text
    assert remedy in found.remedy


def spec(engine: Scripted, **more: Any) -> BackendSpec:
    return BackendSpec(**{"name": "here", "kind": engine.kind, "url": engine.url, **more})  # type: ignore[arg-type]


@asynccontextmanager
async def engine(kind: str = "openai", **more: Any) -> AsyncIterator[Scripted]:
    more = {"context": 8192, **more} if kind == "vllm" else more
    async with Scripted("ollama" if kind == "ollama" else "openai", kind=kind, **more) as it:
        yield it


async def test_all_is_well(capsys: pytest.CaptureFixture[str], redis_server: RedisServer) -> None:
    async with engine("llamacpp") as one, engine("openai") as other:
        specs = [spec(one), spec(other, name="other")]
        findings = await examined(capsys, Settings(redis_url=redis_server.url, backends=specs))
        assert mistakes(findings) == []
        assert {finding.topic for finding in findings} >= {"settings", "Redis", "back end here (llamacpp)"}
        assert await run_doctor(lambda: Settings(redis_url=redis_server.url, backends=specs), []) == 0
        told = capsys.readouterr().out.splitlines()
        assert "✓ Redis: takes writes" in told
        assert f"✓ back end other (openai): {other.url} answers with m-oai" in told


async def test_no_redis_there(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"redis://:topsecret@127.0.0.1:{free_port()}/0"
    async with engine() as one:
        findings = await examined(capsys, Settings(redis_url=url, backends=[spec(one)]))
    only(findings, "REDIS_URL: redis://127.0.0.1:", "correct REDIS_URL")
    assert "topsecret" not in str(findings)


async def test_a_redis_that_throws_jobs_away(capsys: pytest.CaptureFixture[str]) -> None:
    with run_redis("--maxmemory-policy", "allkeys-lru") as server:
        async with engine() as one:
            findings = await examined(capsys, Settings(redis_url=server.url, backends=[spec(one)]))
    only(findings, "maxmemory-policy is allkeys-lru", "CONFIG SET maxmemory-policy noeviction")


async def test_a_redis_that_kept_answers_would_fill(capsys: pytest.CaptureFixture[str]) -> None:
    with run_redis("--maxmemory", "100mb") as server:
        async with engine() as one:
            common: dict[str, Any] = {"redis_url": server.url, "backends": [spec(one)]}
            findings = await examined(capsys, Settings(**common, cache=True))
            only(findings, "kept answers may take 67,108,864", "DOUBLEBUFFER_CACHE_MAX_BYTES")
            for fits in (Settings(**common), Settings(**common, cache=True, cache_max_bytes=10_000_000)):
                assert mistakes(await examined(capsys, fits)) == []


@pytest.mark.parametrize("kept", ["yes", "no"])
async def test_a_redis_that_keeps_nothing_is_worth_a_note(capsys: pytest.CaptureFixture[str], kept: str) -> None:
    with run_redis("--appendonly", kept) as server:
        async with engine() as one:
            findings = await examined(capsys, Settings(redis_url=server.url, backends=[spec(one)]))
    assert mistakes(findings) == []
    notes = [finding.text for finding in findings if finding.level == "note" and finding.topic == "Redis"]
    assert [text.startswith("keeps no log") for text in notes] == ([True] if kept == "no" else [])


async def test_an_old_redis(redis_server: RedisServer) -> None:
    """No server of that age is to be had: this one says that it is."""
    store = await open_store(redis_server.url)
    asked = store.info

    async def info(section: str) -> dict[str, Any]:
        return {**await asked(section), **({"redis_version": "5.0.14"} if section == "server" else {})}

    store.info = info  # type: ignore[method-assign]
    try:
        only(await redis_findings(Settings(), store), "version 5.0.14 is too old", "Redis 6.2 or newer")
    finally:
        await store.aclose()


async def test_an_engine_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    away = BackendSpec(name="away", kind="vllm", url=f"http://127.0.0.1:{free_port()}")
    only(await examined(capsys, Settings(backends=[away])), "gives no answer", "start it there")


@pytest.mark.parametrize("kind", ["vllm", "ollama", "llamacpp", "openai"])
async def test_a_path_in_an_engine_s_address(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    async with engine(kind) as one:
        findings = await examined(capsys, Settings(backends=[spec(one, url=f"{one.url}/engine")]))
    only(findings, f"at {one.url}/engine there is nothing", "leave /engine out of its url")


async def test_something_else_at_an_engine_s_port(
    capsys: pytest.CaptureFixture[str], redis_server: RedisServer
) -> None:
    async with engine(headers={"server": "nginx/1.22.1"}) as one:
        one.pages.clear()
        findings = await examined(capsys, Settings(backends=[spec(one)]))
    only(findings, "there is something else (nginx/1.22.1)", "correct the address or the port")
    wrong = BackendSpec(name="redis", kind="vllm", url=f"http://127.0.0.1:{redis_server.port}")
    only(await examined(capsys, Settings(backends=[wrong])), "gives no answer", "correct its url")


@pytest.mark.parametrize(("is_kind", "said", "title"), [("ollama", "vllm", "Ollama"), ("vllm", "llamacpp", "vLLM")])
async def test_another_engine_than_is_said(
    capsys: pytest.CaptureFixture[str], is_kind: str, said: str, title: str
) -> None:
    async with engine(is_kind) as one:
        findings = await examined(capsys, Settings(backends=[spec(one, kind=said)]))
    only(findings, f"is {title}", f'set kind = "{is_kind}"')


async def test_doublebuffer_as_its_own_engine(capsys: pytest.CaptureFixture[str]) -> None:
    store = await open_store(None)
    try:
        async with served(create_app(Settings(), store)) as port:
            url = f"http://127.0.0.1:{port}"
            for kind in ("vllm", "ollama"):
                itself = BackendSpec(name="me", kind=kind, url=url)  # type: ignore[arg-type]
                only(await examined(capsys, Settings(backends=[itself])), "is Doublebuffer itself", "an engine")
    finally:
        await store.aclose()


async def test_two_with_one_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    twice = {"name": "a", "kind": "vllm", "url": "http://10.0.0.1:8000"}
    monkeypatch.setenv("DOUBLEBUFFER_BACKENDS", json.dumps([twice, twice | {"url": "http://10.0.0.2:8000"}]))
    assert await run_doctor(load_settings, []) == 1
    assert "two back ends are called 'a'" in capsys.readouterr().out


async def test_two_with_one_address(capsys: pytest.CaptureFixture[str]) -> None:
    async with engine("llamacpp") as one:
        twice = [spec(one), spec(one, name="other", url=f"http://LOCALHOST:{one.port}/")]
        findings = await examined(capsys, Settings(backends=twice))
    only(findings, "here and other have the same address", "leave one of them")


@pytest.mark.parametrize(("told", "remedy"), [(True, "correct kv_tokens"), (False, "--max-model-len 4096")])
async def test_a_memory_that_is_too_small_for_the_context(
    capsys: pytest.CaptureFixture[str], told: bool, remedy: str
) -> None:
    async with engine("vllm") as one:
        if not told:
            sizes = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="256",enable_prefix_caching="True"} 1.0\n'
            one.pages["/metrics"] = Status(200, sizes, "text/plain")
        more = {"kv_tokens": 8000} if told else {}
        findings = await examined(capsys, Settings(backends=[spec(one, **more)]))
    only(findings, "its model's context is 8192: a prompt near that never fits", remedy)


def choice(**message: Any) -> Status:
    return Status(200, {"choices": [{"index": 0, "message": {"role": "assistant", **message}}]})


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "<think>\nOkay, the user said hello"}, "wrong"),
        ({"content": None, "reasoning_content": "Okay, the user"}, "fine"),
        ({"content": None, "reasoning": "Okay, the user"}, "fine"),
        ({"content": "Hello!"}, ""),
    ],
)
async def test_a_vllm_without_a_reasoning_parser(
    capsys: pytest.CaptureFixture[str], message: dict[str, Any], expected: str
) -> None:
    async with engine("vllm", models=["Qwen/Qwen3-14B"]) as one:
        one.script = [choice(**message)]
        findings = await examined(capsys, Settings(backends=[spec(one)]))
    asked = one.requests[0].json()
    assert (asked["max_tokens"], asked["chat_template_kwargs"]) == (16, {"enable_thinking": True})
    if expected == "wrong":
        only(findings, "no reasoning parser", "--reasoning-parser")
    else:
        assert mistakes(findings) == []
        assert any("keeps its thinking apart" in finding.text for finding in findings) == (expected == "fine")


@pytest.mark.parametrize("model", ["meta/Llama-3.1-8B-Instruct", "m-oai"])
async def test_a_model_that_does_not_think_is_not_asked(capsys: pytest.CaptureFixture[str], model: str) -> None:
    async with engine("vllm", models=[model], engine=Engine("vllm", thinks=False)) as one:
        assert mistakes(await examined(capsys, Settings(backends=[spec(one)]))) == []
    assert one.requests == []


async def test_a_context_that_is_shorter_than_its_model_s(capsys: pytest.CaptureFixture[str]) -> None:
    async with engine("ollama") as one:
        findings = await examined(capsys, Settings(backends=[spec(one, num_ctx=8192)]))
        assert mistakes(findings) == []
        (noted,) = [finding for finding in findings if finding.level == "note"]
        assert noted.text.startswith("num_ctx is 8192, and a model there could read 32768")
        findings = await examined(capsys, Settings(backends=[spec(one, num_ctx=32768)]))
        assert all(finding.level == "fine" for finding in findings)


async def test_the_command_prints_json(tmp_path: Path) -> None:
    code, out, _ = await run_to_end(["doctor", "--json", "--window-ms", "long"], directory=tmp_path)
    report = json.loads(out)
    assert (code, report["healthy"], len(report["findings"])) == (1, False, 1)
    assert report["findings"][0].keys() == {"topic", "text", "remedy", "level"}
    assert report["findings"][0]["topic"] == "settings"

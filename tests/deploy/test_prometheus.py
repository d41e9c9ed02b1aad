"""Debian's Prometheus: its promtool on the rules, and itself scraping a gateway and a worker that have work to do."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import yaml

from tests.deploy.chart import autoscaler_queries
from tests.deploy.files import alert_rules, dashboard_panels
from tests.deploy.prometheus import Prometheus, run_prometheus, write_configuration
from tests.rig.processes import run_command
from tests.rig.redis_server import RedisServer, free_port, run_redis

pytestmark = [pytest.mark.debian, pytest.mark.asyncio(loop_scope="module")]

UNIT_TESTS = Path(__file__).with_name("alerts_test.yml")
MODEL = "simulated-qwen3:14b"
KEY = "client-and-metrics"
CLIENTS = 6
SEEN_S = 30.0
RANGE = "5s"


def promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


async def test_promtool_takes_the_configuration_and_the_rules(tmp_path: Path) -> None:
    targets = {f"doublebuffer-{part}": "http://127.0.0.1:1" for part in ("gateway", "worker", "batch-worker")}
    said = promtool("check", "config", str(write_configuration(tmp_path, targets, "key")))
    assert f"{len(alert_rules())} rules found" in said


async def test_each_alert_fires_when_it_should_and_is_quiet_when_all_is_well() -> None:
    assert "SUCCESS" in promtool("test", "rules", str(UNIT_TESTS))
    cases = [case for test in yaml.safe_load(UNIT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    every = {rule["alert"] for rule in alert_rules()}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == every
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == every


@dataclass
class Scene:
    prometheus: Prometheus
    redis: RedisServer
    people: list[asyncio.Task[None]]

    async def alerts(self) -> dict[str, str]:
        """Those that fire, or will if it stays so, and which of the two."""
        found = (await self.prometheus.get("alerts"))["alerts"]
        return {alert["labels"]["alertname"]: alert["state"] for alert in found}

    async def rest(self) -> None:
        """Nobody asks any more."""
        for person in self.people:
            person.cancel()
        await asyncio.gather(*self.people, return_exceptions=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A gateway and a worker before a Prometheus, that a handful of people keep busy."""
    folder = tmp_path_factory.mktemp("prometheus")
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(run_redis())
        flags = ["--redis-url", redis.url, "--api-keys", f"all:{KEY}"]
        engine = await stack.enter_async_context(run_command("simulate", "--port", "0", "--time-scale", "0.2"))
        await engine.has_said(r"^  address ")
        backends = json.dumps([{"name": "simulated", "kind": "vllm", "url": engine.url}])
        gateway = await stack.enter_async_context(run_command("gateway", "--port", "0", "--cache", *flags))
        ports = ("--metrics-port", str(free_port()))
        cards = {"PYTHONPATH": str(Path(__file__).with_name("nvml"))}
        worker = await stack.enter_async_context(
            run_command("worker", *flags, *ports, "--backends", backends, environment=cards)
        )
        await gateway.is_healthy("/health/ready")
        await worker.has_said(r"^  metrics ")
        offline = await stack.enter_async_context(
            run_command("batch-worker", *flags, "--metrics-port", str(free_port()))
        )
        await offline.has_said(r"^  metrics ")
        targets = {
            "doublebuffer-gateway": gateway.url,
            "doublebuffer-worker": worker.url,
            "doublebuffer-batch-worker": offline.url,
        }
        configuration = write_configuration(folder, targets, KEY)
        server = await stack.enter_async_context(run_prometheus(folder, configuration))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=gateway.url, headers={"x-api-key": KEY}, trust_env=False, timeout=60)
        )
        group = await stack.enter_async_context(asyncio.TaskGroup())
        found = Scene(server, redis, [group.create_task(keep_asking(client, number)) for number in range(CLIENTS)])
        yield found
        await found.rest()


@pytest_asyncio.fixture(loop_scope="module")
async def prometheus(scene: Scene) -> Prometheus:
    return scene.prometheus


def prompts(number: int) -> Iterator[str]:
    for turn in itertools.count():
        yield f"{number} {turn} " + "what is it about? " * (1 if turn % 3 else 60)


async def keep_asking(client: httpx.AsyncClient, number: int) -> None:
    """One chat after the other, short ones and longer ones, by either API; and one that everybody asks, that may be
    answered from the cache."""
    for prompt in prompts(number):
        body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": True}
        if number % 2:
            answer = await client.post("/v1/chat/completions", json=body | {"max_tokens": 12})
        else:
            answer = await client.post("/api/chat", json=body | {"options": {"num_predict": 12}})
        assert answer.status_code == 200, answer.text
        asked = {"model": MODEL, "messages": [{"role": "user", "content": "What is it about?"}], "temperature": 0}
        answer = await client.post("/v1/chat/completions", json=asked | {"max_tokens": 4, "reasoning_effort": "none"})
        assert answer.status_code == 200, answer.text


async def test_it_scrapes_all_with_their_key(prometheus: Prometheus) -> None:
    async with asyncio.timeout(SEEN_S):
        while await prometheus.up() != {"doublebuffer-gateway", "doublebuffer-worker", "doublebuffer-batch-worker"}:
            await asyncio.sleep(0.1)


async def test_every_panel_has_something_to_show(prometheus: Prometheus) -> None:
    empty = {
        (panel["title"], target["expr"].replace("$__rate_interval", RANGE))
        for panel in dashboard_panels()
        for target in panel["targets"]
    }
    try:
        async with asyncio.timeout(SEEN_S):
            while empty := {(title, query) for title, query in empty if not await prometheus.numbers(query)}:
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"nothing to show: {sorted(empty)}")


async def test_what_the_autoscaler_asks_has_an_answer(prometheus: Prometheus) -> None:
    for asked in autoscaler_queries():
        # In a cluster, Prometheus adds the namespace to what it scrapes.
        query, removed = re.subn(r', namespace="[^"]+"', "", asked)
        assert removed == 1
        async with asyncio.timeout(SEEN_S):
            while len(await prometheus.numbers(query)) != 1:
                await asyncio.sleep(0.2)


async def test_all_rules_are_evaluated_and_all_is_well(scene: Scene, prometheus: Prometheus) -> None:
    async with asyncio.timeout(SEEN_S):
        while True:
            groups = (await prometheus.get("rules"))["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            if all(rule["health"] == "ok" for rule in rules):
                break
            await asyncio.sleep(0.1)
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in alert_rules()}
    assert await scene.alerts() == {}


async def test_without_its_redis_a_gateway_is_not_taken_for_one_that_is_away(scene: Scene) -> None:
    await scene.rest()
    scene.redis.stop()
    try:
        async with asyncio.timeout(SEEN_S):
            while "DoublebufferStoreAway" not in await scene.alerts():
                await asyncio.sleep(0.1)
        assert set(await scene.alerts()) == {"DoublebufferStoreAway"}
    finally:
        scene.redis.start()
    async with asyncio.timeout(SEEN_S):
        while await scene.alerts():
            await asyncio.sleep(0.1)

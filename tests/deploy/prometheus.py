"""A real Prometheus, with the configuration that a deployment has, but for the addresses and the pace."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deploy.files import ALERTS, DEPLOY, read_yaml
from tests.rig.redis_server import free_port

START_S = 40.0
PACE = "500ms"


def write_configuration(folder: Path, targets: Mapping[str, str], key: str) -> Path:
    """``targets``: job → where its one process is."""
    configuration = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
    configuration["global"] = {"scrape_interval": PACE, "evaluation_interval": PACE}
    for job in configuration["scrape_configs"]:
        del job["dns_sd_configs"]
        job["static_configs"] = [{"targets": [targets[job["job_name"]].removeprefix("http://")]}]
    (folder / "alerts.yml").write_text(ALERTS.read_text())
    (folder / "key").write_text(key)
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    return file


class Prometheus:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises ``AssertionError`` with what Prometheus says is wrong."""
        answer = await self._client.get(f"/api/v1/{path}", params=parameters)
        said = answer.json()
        assert said["status"] == "success", said
        return said["data"]

    async def numbers(self, query: str) -> list[float]:
        """What the query finds now; nothing that is no number."""
        found = await self.get("query", query=query)
        values = (float(series["value"][1]) for series in found["result"])
        return [value for value in values if math.isfinite(value)]

    async def up(self) -> set[str]:
        """Jobs whose process has been scraped."""
        found = await self.get("query", query="up == 1")
        return {series["metric"]["job"] for series in found["result"]}


@contextlib.asynccontextmanager
async def run_prometheus(folder: Path, configuration: Path) -> AsyncIterator[Prometheus]:
    port = free_port()
    with (folder / "log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10) as client:
            async with asyncio.timeout(START_S):
                while not await _ready(client):
                    assert child.returncode is None, (folder / "log").read_text()[-2000:]
                    await asyncio.sleep(0.05)
            yield Prometheus(client)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def _ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/-/ready")).status_code == 200
    except httpx.HTTPError:
        return False

"""The image, as far as it can be looked at without building it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import tomllib
from collections.abc import AsyncIterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.files import DEPLOY, ROOT
from tests.rig.redis_server import free_port

DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()
PINS = (DEPLOY / "docker" / "requirements.txt").read_text()
ANSWERS = DEPLOY / "docker" / "answers.py"


def pinned() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", PINS, re.MULTILINE))


def test_pins_are_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = pinned()
    extras = project["optional-dependencies"]
    for wanted in map(Requirement, [*project["dependencies"], *extras["otel"], *extras["gpu"]]):
        version = pins.get(canonicalize_name(wanted.name))
        assert version, f"{wanted.name} is not in deploy/docker/requirements.txt: make pins"
        assert wanted.specifier.contains(version), f"{wanted}, and {version} is pinned: make pins"


def test_every_pin_has_a_hash() -> None:
    for pin in re.split(r"\n(?=\S)", PINS.split("\n", 1)[1].strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", pin), pin


def test_its_python_is_exact_and_the_one_that_is_tested() -> None:
    version = re.search(r"^ARG PYTHON_IMAGE=python:(\d+)\.(\d+)\.\d+-slim-", DOCKERFILE, re.MULTILINE)
    assert version is not None
    assert f"{version[1]}.{version[2]}" in (ROOT / "pyproject.toml").read_text().split("requires-python")[1][:20]
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2


def test_the_last_stage_has_no_tools_to_build_with_and_is_not_root() -> None:
    last = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    assert "pip install" not in last
    assert "apt-get" not in last
    assert "pip uninstall --yes" in last
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert last.index("USER 10001") > last.index("COPY --from=build")
    assert "HEALTHCHECK" in last


def test_every_package_of_ours_gets_into_it() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    lines = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {f"!{package.rstrip('*')}" for package in packages} <= set(lines)
    for line in lines:
        assert not line.startswith("!") or (ROOT / line[1:]).exists(), line


@pytest.mark.parametrize(
    ("gateway", "worker", "code"),
    [(200, None, 0), (401, None, 0), (None, 200, 0), (503, None, 1), (503, 200, 1), (None, None, 1)],
)
async def test_its_health_check(gateway: int | None, worker: int | None, code: int) -> None:
    async with answering(gateway) as one, answering(worker) as two:
        asked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", str(ANSWERS)),
            env={"DOUBLEBUFFER_PORT": str(one), "DOUBLEBUFFER_METRICS_PORT": str(two)},
        )
        assert await asked.wait() == code


@contextlib.asynccontextmanager
async def answering(status: int | None) -> AsyncIterator[int]:
    """A port on which every request gets this status; None: one on which nothing listens."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d So\r\ncontent-length: 0\r\n\r\n" % (status or 0))
        writer.close()

    if status is None:
        yield free_port()
        return
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]

"""The commands of README and quickstart, run as they are written: only ports are others."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tomllib
from pathlib import Path

from buffer.backend import BackendSpec
from tests.docs.pages import PAGES, READMES, ROOT, blocks_of, text_of, without_comments
from tests.rig.processes import clean_environment, run_command
from tests.rig.redis_server import free_port, run_redis

QUICKSTART = ROOT / "docs" / "quickstart.md"
SHELL_S = 60.0
ADDRESS = "localhost:11435"
PLAYS = re.compile(r"^\$ ((?:.*\n)+?.*')\n", re.MULTILINE)
"""A command of a console block, to the end of its body, and what follows is its answer."""


async def shell(script: str, environment: dict[str, str] | None = None, directory: Path = ROOT) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a script in bash, run with ``doublebuffer`` in ``PATH``."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    child = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        cwd=directory,
        env=clean_environment(environment) | {"PATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(SHELL_S):
            out, err = await child.communicate()
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode is not None
    return child.returncode, out.decode(), err.decode()


def play(page: Path) -> tuple[str, str]:
    """The command of a page's console block, and the answer below it."""
    (block,) = blocks_of(page, "console")
    command = PLAYS.match(block)
    assert command
    return command[1], block[command.end() :]


def form(value: object) -> object:
    """The shape of an answer: its names, and the type of what has no parts."""
    if isinstance(value, dict):
        return {name: form(part) for name, part in value.items()}
    return [form(part) for part in value] if isinstance(value, list) else type(value)


async def test_the_curls_are_answered_as_the_pages_say() -> None:
    async with run_command("up", "--port", "0", "--backends", "[]") as up:
        await up.is_healthy("/health/ready")
        assert blocks_of(QUICKSTART, "text")[0].splitlines()[0] == up.out.splitlines()[0]
        address = up.url.removeprefix("http://")

        for readme in READMES:
            _, models = without_comments(blocks_of(readme, "sh")[0]).splitlines()
            assert "simulated-qwen3:14b" in (await shell(models.replace(ADDRESS, address)))[1]
            command, told = play(readme)
            code, answer, _ = await shell(command.replace(ADDRESS, address))
            assert code == 0
            assert form(json.loads(answer)) == form(json.loads(told))
            assert json.loads(answer)["message"] == json.loads(told)["message"]
            assert json.loads(answer)["eval_count"] == json.loads(told)["eval_count"] == 24

        command, told = play(QUICKSTART)
        _, answer, _ = await shell(command.replace(ADDRESS, address))
        events, shown = answer.split("\n\n"), told.split("\n\n")
        assert form(json.loads(events[0][6:])) == form(json.loads(shown[0][6:]))
        assert events[-2] == shown[-1].strip() == "data: [DONE]"


async def test_in_parts_with_redis(tmp_path: Path) -> None:
    """The block of the quickstart, with a gateway that is asked before it is stopped."""
    block = next(block for block in blocks_of(QUICKSTART, "sh") if "doublebuffer worker" in block)
    assert "http://10.0.0.5:8000" in block
    assert "redis://127.0.0.1:6379/0" in block
    async with run_command("simulate", "--port", "0") as engine:
        await engine.is_healthy("/health")
        with run_redis() as redis:
            port = str(free_port())
            answers = f"until curl -sf http://127.0.0.1:{port}/health/ready; do kill -0 %1 && sleep 0.1 || break; done"
            script = (
                without_comments(block)
                .replace(". .venv/bin/activate\n", "")
                .replace("redis://127.0.0.1:6379/0", redis.url)
                .replace("http://10.0.0.5:8000", engine.url)
                .replace("doublebuffer doctor", f"{answers}\ndoublebuffer doctor; healthy=$?")
            )
            code, out, err = await shell(f"{script}\nwait; exit $healthy", {"DOUBLEBUFFER_PORT": port}, tmp_path)
    assert code == 0, out + err
    assert "Doublebuffer 0.1.0 gateway" in out
    assert "Doublebuffer 0.1.0 worker" in out
    assert "big" in out


def test_the_settings_of_the_quickstart_can_be_read() -> None:
    (file,) = blocks_of(QUICKSTART, "toml")
    (backend,) = tomllib.loads(file)["backends"]
    exported = re.search(r"DOUBLEBUFFER_BACKENDS='(.*)'", text_of(QUICKSTART))
    assert exported
    assert [backend] == json.loads(exported[1])
    assert BackendSpec(**backend).kind == "vllm"


async def test_each_command_and_flag_of_ours_is_known() -> None:
    asked: dict[str, set[str]] = {}
    for page in PAGES:
        lines = "\n".join(without_comments(block) for block in blocks_of(page, "sh")).replace("\\\n", " ")
        for command, rest in re.findall(r"^(?:.*/)?doublebuffer ([a-z]+)([^&|\n]*)", lines, re.MULTILINE):
            asked.setdefault(command, set()).update(re.findall(r"(--[a-z-]+)", rest))
    assert {"up", "gateway", "worker", "doctor", "study"} <= set(asked) | {"up"}
    for command, flags in asked.items():
        code, told, _ = await shell(f"doublebuffer {command} --help")
        assert code == 0, command
        assert flags <= set(re.findall(r"(--[a-z-]+)", told)), command

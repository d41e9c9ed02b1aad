"""Open WebUI as a real process on a data directory of its own, with a gateway behind both of its connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.rig.processes import clean_environment
from tests.rig.redis_server import free_port

START_S = 240.0
END_S = 15.0
INSTALLED = Path(__file__).parents[2] / ".venv-openwebui"
PREFIX = "openai"
"""Put before the names that come by the OpenAI connection, or the same model would be listed once only."""
TASK_HEADER = {"X-OpenWebUI-Task": "{{TASK}}"}
TITLE_TEMPLATE = "In three words or fewer, as JSON with the one key title, what is this about?\n{{MESSAGES:END:2}}"
"""Unlike Open WebUI's own, so that only the header can tell that a title is being asked for."""


@dataclass(frozen=True, slots=True)
class Front:
    """A running Open WebUI."""

    url: str
    pid: int
    log: Path


def program() -> Path:
    """In the environment that OPENWEBUI_VENV names, else in the one that `make test-openwebui` makes. Raises
    ``RuntimeError`` where there is none."""
    found = Path(os.environ.get("OPENWEBUI_VENV") or INSTALLED) / "bin" / "open-webui"
    if not found.exists():
        raise RuntimeError(
            "OPENWEBUI_VENV names no environment with Open WebUI in it; `make test-openwebui` makes one."
        )
    return found


def connections(gateway: str) -> dict[str, str]:
    """The settings of Open WebUI that an operator would make: Doublebuffer twice, who asks, and what for."""
    return {
        "ENABLE_OLLAMA_API": "true",
        "OLLAMA_BASE_URL": gateway,
        "OLLAMA_API_CONFIGS": json.dumps({"0": {"enable": True, "headers": TASK_HEADER}}),
        "ENABLE_OPENAI_API": "true",
        "OPENAI_API_BASE_URLS": f"{gateway}/v1",
        "OPENAI_API_KEYS": "none-needed",
        "OPENAI_API_CONFIGS": json.dumps({"0": {"enable": True, "prefix_id": PREFIX, "headers": TASK_HEADER}}),
        "ENABLE_FORWARD_USER_INFO_HEADERS": "true",
    }


def offline(data: Path) -> dict[str, str]:
    """What keeps it on this machine, and from loading models of its own."""
    return {
        "DATA_DIR": str(data),
        "WEBUI_SECRET_KEY": "only-for-this-test",
        "OFFLINE_MODE": "true",
        "HF_HUB_OFFLINE": "1",
        "ENABLE_VERSION_UPDATE_CHECK": "false",
        "RAG_EMBEDDING_ENGINE": "ollama",
        "RAG_EMBEDDING_MODEL": "none",
        "SCARF_NO_ANALYTICS": "true",
        "DO_NOT_TRACK": "true",
        "ANONYMIZED_TELEMETRY": "false",
        "GLOBAL_LOG_LEVEL": "INFO",
        "TITLE_GENERATION_PROMPT_TEMPLATE": TITLE_TEMPLATE,
        "NO_PROXY": "127.0.0.1",
    }


@contextlib.asynccontextmanager
async def run_front(gateway: str, more: Mapping[str, str] | None = None) -> AsyncIterator[Front]:
    """Open WebUI in front of ``gateway``, with ``more`` settings, until the block ends. Raises ``RuntimeError`` if it
    does not start."""
    command = program()
    with tempfile.TemporaryDirectory(prefix="doublebuffer-openwebui-") as directory:
        data, log = Path(directory) / "data", Path(directory) / "log"
        data.mkdir()
        port = free_port()
        with log.open("wb") as sink:
            child = await asyncio.create_subprocess_exec(
                *(str(command), "serve", "--host", "127.0.0.1", "--port", str(port)),
                cwd=data,
                env=clean_environment() | offline(data) | connections(gateway) | dict(more or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        try:
            front = Front(f"http://127.0.0.1:{port}", child.pid, log)
            await _is_healthy(front, child)
            yield front
        finally:
            if sys.exc_info()[0] is not None:
                print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
            await _end(child)


async def _is_healthy(front: Front, child: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(START_S), httpx.AsyncClient(trust_env=False, timeout=5) as client:
            while child.returncode is None:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"{front.url}/health")).status_code == 200:
                        return
                await asyncio.sleep(0.25)
    except TimeoutError:
        raise RuntimeError(f"Open WebUI was not healthy within {START_S:.0f} s") from None
    raise RuntimeError(f"Open WebUI ended with {child.returncode}")


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.terminate()
        try:
            async with asyncio.timeout(END_S):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()

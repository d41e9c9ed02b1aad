"""A real Chromium with Open WebUI in it, steered by playwright-core."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.openwebui.front import INSTALLED

STEP_S = 90.0
SCRIPT = Path(__file__).with_name("browser.mjs")


class BrowserError(AssertionError):
    """A step that the page did not let happen."""


class Browser:
    """The page of one person. Each method of the script's is a ``do``."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    async def do(self, name: str, **given: Any) -> Any:
        """What the step gives. Raises ``BrowserError`` if it fails or takes too long."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"do": name, **given}).encode() + b"\n")
        await self._child.stdin.drain()
        return await self.answer(name)

    async def answer(self, name: str) -> Any:
        assert self._child.stdout is not None
        try:
            async with asyncio.timeout(STEP_S):
                line = await self._child.stdout.readline()
        except TimeoutError:
            raise BrowserError(f"{name} took more than {STEP_S:.0f} s") from None
        if not line:
            raise BrowserError(f"the browser has gone at {name}")
        told = json.loads(line)
        if "failed" in told:
            raise BrowserError(f"{name}: {told['failed']}")
        return told["done"]

    async def chat_with(self, model: str) -> None:
        """A new chat with a model."""
        await self.do("newChat")
        await self.pick(model)

    async def pick(self, model: str) -> None:
        """The model of the menu's that answers from now on."""
        assert model in await self.do("models")
        await self.do("choose", model=model)


def chromium() -> str:
    """Raises ``RuntimeError`` if there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise RuntimeError("No Chromium on PATH; CHROMIUM may name one.")
    return found


def playwright_folder() -> str:
    """Raises ``RuntimeError`` if there is none."""
    where = os.environ.get("OPENWEBUI_NODE") or str(INSTALLED / "node")
    if not (Path(where) / "node_modules" / "playwright-core").is_dir():
        raise RuntimeError("OPENWEBUI_NODE names no folder with playwright-core; `make test-openwebui` makes one.")
    return where


@contextlib.asynccontextmanager
async def run_browser(site: str) -> AsyncIterator[Browser]:
    """A Chromium of one's own, its profile gone with it."""
    with tempfile.TemporaryDirectory(prefix="doublebuffer-chromium-") as home:
        child = await asyncio.create_subprocess_exec(
            *("node", str(SCRIPT), playwright_folder(), chromium(), site),
            env=os.environ | {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        browser = Browser(child)
        try:
            await browser.answer("start")
            yield browser
        finally:
            await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    """The end of its input lets it close Chromium; on SIGTERM playwright does so too."""
    assert child.stdin is not None
    child.stdin.close()
    for ask in (None, child.terminate, child.kill):
        if child.returncode is None and ask is not None:
            ask()
        try:
            async with asyncio.timeout(10):
                await child.wait()
                return
        except TimeoutError:
            continue

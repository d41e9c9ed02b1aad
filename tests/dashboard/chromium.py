"""A real Chromium, steered over its DevTools protocol: nothing is needed but the browser."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

START_S = 30.0
STEP_S = 20.0
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-extensions", "--hide-scrollbars", "--remote-debugging-port=0"),
)


def chromium() -> str:
    """Raises ``RuntimeError`` if there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        raise RuntimeError("No Chromium on PATH (Debian: apt-get install chromium); CHROMIUM may name one.")
    return found


class Page:
    """One tab, and what it complained of."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._last = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        """Errors of its console, its scripts and its policy."""
        self.asked: list[str] = []
        """Addresses it has asked for, in order."""

    async def listen(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                if not (answer := self._answers.pop(told["id"])).done():
                    answer.set_result(told)
            else:
                self._note(told["method"], told["params"])

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            about = told["exceptionDetails"]
            self.complaints.append(about.get("exception", {}).get("description", about["text"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])

    async def do(self, method: str, **given: Any) -> dict[str, Any]:
        """Raises ``AssertionError`` where the browser refuses."""
        self._last += 1
        answer = self._answers[self._last] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._last, "method": method, "params": given})
        async with asyncio.timeout(STEP_S):
            told = await answer
        assert "error" not in told, (method, told)
        found: dict[str, Any] = told["result"]
        return found

    async def open(self, url: str) -> None:
        await self.do("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """What an expression gives. Raises ``AssertionError`` where it throws."""
        told = await self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def until(self, script: str, *, within_s: float = STEP_S) -> None:
        """Waits until an expression holds. Raises ``AssertionError`` with what is on the page."""
        until = asyncio.get_running_loop().time() + within_s
        while asyncio.get_running_loop().time() < until:
            with contextlib.suppress(AssertionError):
                if await self.run(script):
                    return
            await asyncio.sleep(0.05)
        raise AssertionError(f"never: {script}\n{await self.text()}\n{self.complaints}")

    async def text(self, selector: str = "body") -> str:
        return str(await self.run(f"document.querySelector({selector!r}).innerText"))

    async def size(self, width: int, height: int = 900, *, mobile: bool = False, scale: float = 1) -> None:
        await self.do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    async def scheme(self, name: str) -> None:
        """``light`` or ``dark``."""
        await self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def focus(self, selector: str) -> None:
        """Waited for: what is drawn anew in between loses it."""
        found = f"document.querySelector({selector!r})"
        await self.until(f"({found}?.focus(), {found} && document.activeElement === {found})")

    async def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            more = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, code=key, **_CODES.get(key, {}), **more)

    async def type(self, text: str) -> None:
        """Into the field that has the focus; waited for, as a page gives it only when it is first drawn."""
        await self.until("document.activeElement?.matches('input, textarea')")
        await self.do("Input.insertText", text=text)

    async def picture(self, file: Path, *, whole: bool = True) -> None:
        told = await self.do("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        await asyncio.to_thread(file.write_bytes, base64.b64decode(told["data"]))


_CODES = {
    "Tab": {"windowsVirtualKeyCode": 9},
    "Enter": {"windowsVirtualKeyCode": 13},
    "ArrowLeft": {"windowsVirtualKeyCode": 37},
}


class Browser:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """A tab of its own. Cookies are all tabs'."""
        async with self._session.put(f"{self._url}/json/new?about:blank") as answer:
            about = await answer.json()
        async with self._session.ws_connect(about["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            page = Page(socket)
            listening = asyncio.create_task(page.listen())
            try:
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await page.do(f"{domain}.enable")
                yield page
            finally:
                listening.cancel()
                async with self._session.get(f"{self._url}/json/close/{about['id']}"):
                    pass


@contextlib.asynccontextmanager
async def run_chromium() -> AsyncIterator[Browser]:
    """A browser of one's own, its profile gone with it."""
    with tempfile.TemporaryDirectory(prefix="doublebuffer-chromium-", ignore_cleanup_errors=True) as home:
        child = await asyncio.create_subprocess_exec(
            *(chromium(), *_FLAGS, f"--user-data-dir={home}/profile", "about:blank"),
            env=os.environ | {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(home, "profile", "DevToolsActivePort"), child)
            async with aiohttp.ClientSession() as session:
                yield Browser(session, f"http://127.0.0.1:{port}")
        finally:
            if child.returncode is None:
                child.terminate()
            await child.wait()


async def _port(file: Path, child: asyncio.subprocess.Process) -> int:
    until = asyncio.get_running_loop().time() + START_S
    while asyncio.get_running_loop().time() < until and child.returncode is None:
        with contextlib.suppress(OSError):
            if lines := (await asyncio.to_thread(file.read_text)).split():
                return int(lines[0])
        await asyncio.sleep(0.05)
    raise AssertionError("Chromium did not start")

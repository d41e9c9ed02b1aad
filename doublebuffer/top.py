"""``doublebuffer top``: the dashboard in a terminal, from the store itself or from a gateway."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from doublebuffer import VERSION
from doublebuffer.flags import add_setting_flags
from doublebuffer.top_frame import frame
from doublebuffer.top_paper import Paper

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EVERY_S = 1.0
PATIENCE_S = 5.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""A screen of our own without a cursor, on which lines are cut and not wrapped; and back."""
_ABOUT = (
    "What waits, what runs where, and why it is slow, once a second; q or Ctrl-C ends it. It reads the Redis of "
    "REDIS_URL, or asks a gateway: the one of --url, and without either the one on this machine."
)


class Source(Protocol):
    async def look(self) -> dict[str, Any]:
        """What was seen. Raises ``SettingsError`` where asking again is of no use."""


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "live view in the terminal"
    parser = commands.add_parser("top", help=text, description=_ABOUT, allow_abbrev=False)
    parser.add_argument("--url", help="a gateway's address, http://host:port; unset: REDIS_URL if set")
    parser.add_argument("--key", help="an API key of that gateway, where it has keys; - asks for it, or reads a pipe")
    parser.add_argument("--once", action="store_true", help="one frame, without colours unless on a terminal")
    add_setting_flags(parser)


async def run_top(arguments: argparse.Namespace, settings: Settings) -> int:
    """Shows frames until it is told to stop; the exit code. Raises ``SettingsError``."""
    async with _source(arguments, settings) as source:
        first = await source.look()
        if arguments.once or not sys.stdout.isatty():
            print("\n".join(frame(first, _paper(height=False), note=_clock())))
            return 0
        with _terminal() as screen:
            await screen.run(source, first)
    return 0


@contextlib.asynccontextmanager
async def _source(arguments: argparse.Namespace, settings: Settings) -> AsyncIterator[Source]:
    if arguments.url is None and settings.redis_url is not None:
        from buffer.embed import pool_of
        from buffer.lanes import Lanes
        from buffer.lookout import Lookout
        from doublebuffer.starting import connect

        store = await connect(settings)
        try:
            names = sorted({spec.pool for spec in settings.backends}) or ["default"]
            pools, embeddings = [Lanes(store, name) for name in names], [Lanes(store, pool_of(name)) for name in names]
            yield StoreSource(Lookout(store, pools, embeddings))
        finally:
            await store.aclose()
        return
    import httpx

    url = (arguments.url or f"http://{settings.host}:{settings.port}").rstrip("/")
    headers = {"authorization": f"Bearer {key}"} if (key := _key(arguments.key)) else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE_S, trust_env=False) as client:
        yield GatewaySource(client, url)


def _key(given: str | None) -> str:
    if given != "-":
        return given or ""
    return getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline().strip()


class StoreSource:
    def __init__(self, lookout: Any) -> None:
        self._lookout = lookout

    async def look(self) -> dict[str, Any]:
        return {"version": VERSION, **await self._lookout.look(), **self._lookout.for_admins()}


class GatewaySource:
    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url
        self._before: dict[str, Any] | None = None

    async def look(self) -> dict[str, Any]:
        import httpx

        try:
            answer = await self._client.get("/dashboard/data")
        except httpx.HTTPError:
            return self._again(f"{self._url} does not answer.")
        except httpx.InvalidURL:
            raise SettingsError(f"--url: {self._url} is no address; it looks like http://host:port.") from None
        if answer.status_code == 401:
            raise SettingsError("--key: this gateway asks for a key, and nobody there has this one.")
        if answer.status_code == 503:
            return self._again("The gateway cannot check the key at the moment.")
        try:
            self._before = answer.json()["seen"]
        except (ValueError, KeyError, TypeError):
            raise SettingsError(f"--url: what answers at {self._url} is no gateway of this version.") from None
        return self._before

    def _again(self, why: str) -> dict[str, Any]:
        """What was seen before. Raises ``SettingsError`` where that is nothing."""
        if self._before is None:
            raise SettingsError(f"--url: {why}")
        return self._before | {"store": {"reason": why}, "verdict": {"level": "broken", "says": why, "why": []}}


class Screen:
    """``quit``: set when somebody wants to go; ``redraw``: when there is another size."""

    def __init__(self) -> None:
        self.quit = asyncio.Event()
        self.redraw = asyncio.Event()

    async def run(self, source: Source, seen: dict[str, Any]) -> None:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._look(source, seen))
            await self.quit.wait()
            looking.cancel()

    async def _look(self, source: Source, seen: dict[str, Any]) -> None:
        while True:
            self._draw(seen)
            self.redraw.clear()
            try:
                async with asyncio.timeout(EVERY_S):
                    await self.redraw.wait()
            except TimeoutError:
                seen = await source.look()

    @staticmethod
    def _draw(seen: dict[str, Any]) -> None:
        note = f"as it was {_clock(seen['at'])}" if seen["store"] else f"{_clock()}  q: quit"
        lines = frame(seen, _paper(height=True), note=note)
        # Each line as it is, then nothing to its end; and nothing below the last.
        sys.stdout.write("\x1b[H" + "\x1b[K\n".join(lines) + "\x1b[K\x1b[J")
        sys.stdout.flush()

    def key(self) -> None:
        """Somebody has pressed something."""
        pressed = os.read(sys.stdin.fileno(), 64)
        if not pressed or pressed[:1] in b"qQ\x03\x04":
            self.quit.set()


@contextlib.contextmanager
def _terminal() -> Iterator[Screen]:
    """The terminal in our hands; it is given back as it was, whatever happens."""
    import termios
    import tty

    loop = asyncio.get_running_loop()
    screen = Screen()
    descriptor = sys.stdin.fileno()
    keys = os.isatty(descriptor)
    before = termios.tcgetattr(descriptor) if keys else None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, screen.quit.set)
    loop.add_signal_handler(signal.SIGWINCH, screen.redraw.set)
    # What goes wrong is told in the frame; a line of the log would go through it.
    logging.disable(logging.CRITICAL)
    try:
        if keys:
            tty.setcbreak(descriptor)
            loop.add_reader(descriptor, screen.key)
        sys.stdout.write(_ENTER)
        yield screen
    finally:
        if keys:
            loop.remove_reader(descriptor)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        logging.disable(logging.NOTSET)
        if before is not None:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _paper(*, height: bool) -> Paper:
    try:
        # Before COLUMNS and LINES, which somebody may have set: the terminal itself knows when it changes.
        size = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size((100, 40))
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return Paper(max(60, size.columns), size.lines if height else 0, colours)


def _clock(at: float | None = None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))

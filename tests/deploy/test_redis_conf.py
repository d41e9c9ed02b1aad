"""redis.conf, by a Redis that has read it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.deploy.files import DEPLOY
from tests.rig.processes import run_to_end
from tests.rig.redis_server import free_port, redis_binary

CONF = DEPLOY / "redis" / "redis.conf"
USER = re.compile(r"^# (?=user )", re.MULTILINE)


@contextmanager
def running(text: str, folder: Path) -> Iterator[int]:
    """A server with these settings; its port."""
    port = free_port()
    file = folder / "redis.conf"
    file.write_text(text)
    command = [redis_binary(), str(file), "--port", str(port), "--dir", str(folder), "--logfile", str(folder / "log")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as server:
        try:
            yield port
        finally:
            server.terminate()


async def examined(url: str, folder: Path) -> list[str]:
    """What the doctor says of that Redis, once it answers."""
    _, said, _ = await run_to_end(["doctor", "--redis-url", url], directory=folder)
    return [line for line in said.splitlines() if "Redis:" in line]


def answers(port: int, username: str | None = None, password: str | None = None) -> redis.Redis:
    """A client of the server, once that answers."""
    patience = Retry(ConstantBackoff(0.05), 100)
    client = redis.Redis(
        port=port, username=username, password=password, retry=patience, retry_on_error=[redis.ConnectionError]
    )
    client.ping()
    return client


async def test_the_doctor_has_nothing_against_it(tmp_path: Path) -> None:
    with running(CONF.read_text(), tmp_path) as port:
        with answers(port) as client:
            assert client.config_get("appendonly") == {"appendonly": "yes"}
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        said = await examined(f"redis://127.0.0.1:{port}", tmp_path)
    assert len(said) == 3
    assert all(line.startswith("✓") for line in said)


async def test_its_user_may_do_all_that_is_needed_and_nobody_else_may_do_anything(tmp_path: Path) -> None:
    text, users = USER.subn("", CONF.read_text())
    assert users == 2
    with running(text, tmp_path) as port:
        answers(port, username="doublebuffer", password="a-long-password").close()
        mine = await examined(f"redis://doublebuffer:a-long-password@127.0.0.1:{port}", tmp_path)
        nobody = await examined(f"redis://127.0.0.1:{port}", tmp_path)
    assert all(line.startswith("✓") for line in mine), mine
    assert [line[:8] for line in nobody] == ["✗ Redis:"]

"""Ways to a Redis that are not the plain one: a user with few rights, a wire that is slow and breaks, a server that is
still loading when the commands start."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import redis.asyncio

from tests.acceptance.crowd import ask, asks, crowd, faults
from tests.acceptance.site import backend, backends_of, run_engines, run_site
from tests.rig.processes import run_command, run_to_end
from tests.rig.proxy import Proxy
from tests.rig.redis_server import bundled_binary, redis_binary, run_redis

pytestmark = pytest.mark.timeout(120)

DOCS = Path(__file__).parents[2] / "docs" / "redis.md"
KINDS = ("vllm", "ollama")
MODELS = [f"m-{kind}" for kind in KINDS]


@dataclass
class Way:
    """What is told to gateway and workers, and where the keys are."""

    url: str
    ports: list[int]


def _rights() -> list[str]:
    """Of a user, as the manual has them."""
    (line,) = [line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER ")]
    return line.split()


@pytest.mark.parametrize("which", ["newest", "oldest"])
async def test_a_user_needs_no_more_rights_than_the_manual_says(which: str) -> None:
    with run_redis(binary=(which == "oldest" and bundled_binary()) or redis_binary()) as server:
        async with redis.asyncio.Redis(port=server.port) as direct:
            rights = _rights()
            await direct.execute_command(*rights)
            name, secret = rights[2], next(right[1:] for right in rights if right.startswith(">"))
        way = Way(server.url.replace("//", f"//{name}:{secret}@"), server.ports)
        async with run_engines(kinds=KINDS) as engines, run_site(backends_of(engines), store=way) as site:
            what = asks(24, MODELS)
            assert faults(what, await crowd(site.url, what, clients=8)) == {}
            assert await site.leftovers() == []
            assert site.complaints() == []


async def test_a_user_without_a_right_is_told(tmp_path: Path) -> None:
    with run_redis() as server:
        async with redis.asyncio.Redis(port=server.port) as direct:
            await direct.execute_command("ACL", "SETUSER", "weak", "on", ">pw", "~*", "-@all", "+@connection")
        for login, told in (
            ("weak:pw@", "Redis does not let this user run a command that is needed (docs/redis.md lists them)."),
            ("weak:other@", "Redis refuses the user or the password of REDIS_URL."),
        ):
            code, _, log = await run_to_end(
                ["gateway", "--port", "0", "--redis-url", server.url.replace("//", f"//{login}")], directory=tmp_path
            )
            assert code == 2
            assert log.rstrip().endswith(told)
            assert "pw" not in log


async def test_a_slow_wire_that_breaks() -> None:
    """200 ms each way, and cut three times: slower, and whole."""
    with run_redis() as server:
        async with (
            Proxy(server.port) as proxy,
            run_engines(delay_s=0.1, kinds=KINDS) as engines,
            run_site(backends_of(engines), store=Way(proxy.url, server.ports)) as site,
            httpx.AsyncClient(base_url=site.url, trust_env=False, timeout=60) as client,
        ):
            warm = asks(4, MODELS, seed=1, words=(1, 1))
            assert faults(warm, await crowd(site.url, warm)) == {}
            proxy.delay_s = 0.1
            what = asks(8, MODELS, words=(40, 40))
            async with asyncio.TaskGroup() as group:
                answers = [group.create_task(ask(client, one)) for one in what]
                for _ in range(3):
                    await asyncio.sleep(1.5)
                    proxy.reset()
            assert faults(what, [answer.result() for answer in answers]) == {}
            proxy.delay_s = 0.0
            assert await site.leftovers() == []


async def test_commands_wait_for_a_server_that_is_loading() -> None:
    options = ("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    with run_redis(*options) as server:
        async with redis.asyncio.Redis(port=server.port) as direct:
            await direct.mset({f"k{i}": "x" * 100 for i in range(4000)})
            await direct.save()
        server.stop()
        server.start(ready=False)
        backends = json.dumps([backend("none", "vllm", "http://127.0.0.1:1")])
        environment = {"REDIS_URL": server.url, "DOUBLEBUFFER_BACKENDS": backends}
        async with run_command("gateway", "--port", "0", environment=environment) as gateway:
            await gateway.is_healthy()
            assert "Redis is loading its data. It is waited for" in gateway.log

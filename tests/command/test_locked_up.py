"""An installation as docs/security.md has it: a Redis user with the rights that the page gives, and keys all round."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import redis

from tests.rig.processes import run_command
from tests.rig.redis_server import free_port, run_redis
from tests.rig.scripted import Scripted

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
KEY = {"Authorization": "Bearer a-client-key"}


def rights() -> list[str]:
    """The words of the command that the page shows."""
    found = re.search(r"^ *(ACL SETUSER .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1].split()


async def test_a_redis_user_with_few_rights_and_keys_for_everything() -> None:
    with run_redis() as server:
        client: Any = redis.Redis(port=server.port)
        client.execute_command(*rights())
        client.execute_command("ACL", "SETUSER", "default", "off")
        client.close()
        user, password = rights()[2], next(word[1:] for word in rights() if word.startswith(">"))
        async with Scripted("ollama", models=["m"]) as engine:
            environment = {
                "REDIS_URL": f"redis://{user}:{password}@127.0.0.1:{server.port}/0",
                "DOUBLEBUFFER_BACKENDS": json.dumps([{"name": "b", "kind": "ollama", "url": engine.url}]),
                "DOUBLEBUFFER_API_KEYS": "ann:a-client-key",
            }
            async with (
                run_command("gateway", "--port", "0", environment=environment) as gateway,
                run_command("worker", "--metrics-port", str(free_port()), environment=environment) as worker,
            ):
                await gateway.is_healthy("/health/ready")
                await worker.has_said("metrics")
                async with httpx.AsyncClient(trust_env=False, timeout=20) as http:
                    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": False}
                    got = await http.post(f"{gateway.url}/api/chat", json=body, headers=KEY)
                    assert got.status_code == 200, got.text
                    got = await http.post(f"{gateway.url}/api/embed", json={"model": "m", "input": "x"}, headers=KEY)
                    assert got.status_code == 200, got.text
                    for url in (f"{gateway.url}/metrics", f"{worker.url}/metrics"):
                        assert (await http.get(url)).status_code == 401
                        text = (await http.get(url, headers=KEY)).text
                        assert 'doublebuffer_attempts_total{backend="b"' in text or url.startswith(gateway.url)
                    for path in ("/docs", "/openapi.json", "/redoc", "/docs/oauth2-redirect"):
                        assert (await http.get(f"{gateway.url}{path}")).status_code == 401
                async with run_command("doctor", environment=environment) as doctor:
                    assert await doctor.ended() == 0, doctor.out
                for process in (gateway, worker, doctor):
                    assert "a-client-key" not in process.out + process.log
                    assert password not in process.out + process.log
                    assert "Traceback" not in process.log

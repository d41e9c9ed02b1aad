"""P11: with nothing to do, nobody asks the store for anything but what wakes and what keeps alive."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import Any

from redis.asyncio import Redis

from buffer.recent import TELL_S
from buffer.scripting import by_sha
from buffer.store import open_store
from tests.rig.redis_server import run_redis
from tests.rig.scripted import Scripted
from tests.worker.rig import gate, settings, spec, working

CALMS_DOWN_S = TELL_S + 0.5
"""By then all that was counted of the last job has been told."""
LOOKED_FOR_S = 4.0
LEASE_S = 4.0
WORKERS = 2
PRESENCE = ("worker", "workers", "state", "states")
PRESSED = 5
"""Parts ahead of the command that ``press`` runs."""
RENEWS_NOTHING = 8
"""Parts of the command: name, hash, number of keys, base, instant, worker, lease, how long its orders hold."""


def what(command: str, names: dict[str, str]) -> str:
    """A command as MONITOR shows it, in a word."""
    parts = command.split(" ")
    verb = parts[0].upper()
    if verb == "EVALSHA":
        name = names.get(parts[1], parts[1])
        if name == "press":
            return what(" ".join(parts[PRESSED:]), names)
        if name == "told":
            return "presence"
        return f"{name} of jobs" if name == "renew" and len(parts) > RENEWS_NOTHING else name
    if len(parts) > 1 and parts[1].partition("}:")[2].partition(":")[0] in PRESENCE:
        return "presence"
    return verb


async def test_idle_workers_and_gateways_only_wait() -> None:
    names = {sha: one.name for sha, one in by_sha().items()}
    seen: Counter[str] = Counter()

    async def watch(client: Any) -> None:
        async with client.monitor() as monitor:
            while True:
                command = await monitor.next_command()
                if command["client_type"] != "lua":
                    seen[what(command["command"], names)] += 1

    with run_redis() as server:
        store = await open_store(server.url, prefix=f"idle-{secrets.token_hex(4)}")
        async with (
            Scripted("openai") as engine,
            gate(store) as door,
            working(store, spec(engine), crew=WORKERS, config=settings(lease_seconds=LEASE_S)) as crew,
            Redis.from_url(server.url) as client,
        ):
            assert (await (await door.ask("marker:x words:3")).end()).kind == "done"
            await door.lanes.watch(door.inbox.name, [])  # loads the script, so that nobody has to later
            await asyncio.sleep(CALMS_DOWN_S)
            watching = asyncio.create_task(watch(client))
            await asyncio.sleep(LOOKED_FOR_S)
            watching.cancel()
        await store.aclose()
    assert set(seen) <= {"XREAD", "renew", "watch", "reap", "presence"}, seen
    ticks = sum(len(one.pools) for one in crew.workers) * (LOOKED_FOR_S / (LEASE_S / 4) + 2)
    assert 0 < seen["renew"] <= ticks, seen
    assert 0 < seen["reap"] <= ticks, seen
    assert seen["XREAD"] <= ticks, seen
    assert seen["presence"] <= 8 * ticks, seen

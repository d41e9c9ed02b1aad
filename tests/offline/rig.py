"""Offline batches run in this process: a worker, a runner, and a scripted engine before them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from buffer.backend import BackendSpec
from buffer.files import Files
from buffer.offline import Offline, OfflineBatch
from buffer.settings import Settings
from buffer.store import Store
from buffer.telemetry import Telemetry
from gateway.offline.apart import apart
from gateway.offline.runner import Runner
from tests.offline import kept
from tests.rig.scripted import Scripted
from worker.runner import Worker

CHATS = "/v1/chat/completions"
MODEL = "m-oai"
SLOTS = 3
END_S = 20.0


@dataclass
class House:
    """``runner`` runs what there is."""

    store: Store
    files: Files
    offline: Offline
    engine: Scripted
    runner: Runner
    telemetry: Telemetry

    async def begin(self, lines: Iterable[str], *, owner: str = kept.ANN, **more: Any) -> OfflineBatch:
        record = await kept.upload(self.files, "".join(lines).encode(), owner)
        return await kept.batch(self.offline, record, **more)

    async def at(self, id: str, *states: str, done: int = 0) -> OfflineBatch:
        """Waits until it stands so, and so many lines are done."""
        async with asyncio.timeout(END_S):
            while True:
                batch = await kept.again(self.offline, id)
                if batch.status in states and batch.completed + batch.failed >= done:
                    return batch
                assert batch.open, (batch.status, batch.errors)
                await asyncio.sleep(0.02)

    async def told(self, batch: OfflineBatch) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the output file and the error file say, by custom_id."""
        return await self._told(batch.output_file_id), await self._told(batch.error_file_id)

    async def _told(self, id: str | None) -> dict[str, Any]:
        if id is None:
            return {}
        record = await self.files.read(id, kept.ANN) or await self.files.read(id, kept.BOB)
        assert record is not None
        lines = [json.loads(line) for line in (await kept.content(self.files, record)).splitlines()]
        found = {line["custom_id"]: line for line in lines}
        assert len(found) == len(lines)
        return found


def line(id: str, prompt: str = "words:1", **body: Any) -> str:
    request = {"model": MODEL, "messages": [{"role": "user", "content": f"marker:{id} {prompt}"}]} | body
    return json.dumps({"custom_id": id, "method": "POST", "url": CHATS, "body": request}) + "\n"


def lines(count: int, prompt: str = "words:1", *, name: str = "id") -> list[str]:
    return [line(f"{name}-{number}", prompt) for number in range(count)]


@asynccontextmanager
async def house(store: Store, files: Files, *, lease_s: float = 15.0, **more: Any) -> AsyncIterator[House]:
    """Its engine takes ``SLOTS`` jobs at a time."""
    async with Scripted() as engine:
        spec = BackendSpec(name="e", kind="openai", url=engine.url, max_in_flight=SLOTS)
        settings = Settings(backends=[spec], drain_seconds=0.2, key_prefix=store.prefix, window_ms=0, **more)
        telemetry, offline, closed = Telemetry(), Offline(store, files), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(Worker(settings, store).run(closed))
            async with apart(settings, store, telemetry, ["default"]) as parts:
                runner = Runner(parts, offline, files, lease_s=lease_s)
                async with asyncio.TaskGroup() as runs:
                    running = runs.create_task(runner.run())
                    yield House(store, files, offline, engine, runner, telemetry)
                    runner.stopping.set()
                    await asyncio.wait({running}, timeout=5)
                    running.cancel()
            closed.set()

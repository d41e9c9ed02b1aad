"""What RQ's work-horse does: it runs the offline batch or pull that it was asked for, and all others that nobody runs.

So one process is enough for any number of them, and a batch of ten lines does not wait for the end of one of 50,000.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvloop
from prometheus_client import values

from buffer.backend import BackendSpec
from buffer.files import Files
from buffer.offline import Offline
from buffer.pulls import Pulls
from buffer.settings import Settings
from buffer.store import open_store
from buffer.timing import wait_for
from doublebuffer.counted import COUNTERS
from doublebuffer.counting import telling_of
from gateway.offline.apart import apart
from gateway.offline.pulling import Pulling
from gateway.offline.runner import Runner

_log = logging.getLogger("doublebuffer.offline")
PARENT_S = 0.5
"""How soon it is noticed that the batch worker is gone."""


@dataclass(slots=True)
class _Inherited:
    """What a work-horse has from the process that it was forked from."""

    settings: Settings | None = None


_inherited = _Inherited()


@contextmanager
def inherited(settings: Settings) -> Iterator[None]:
    """Work-horses that are forked inside work with these."""
    _inherited.settings = settings
    try:
        yield
    finally:
        _inherited.settings = None


def run_offline_batch(id: str) -> None:
    """RQ's task. Returns once there is nothing to do, or when it is told to stop: then others go on."""
    settings = _inherited.settings
    if settings is None:
        raise RuntimeError("offline batches are run by `doublebuffer batch-worker`, and by no other worker of RQ's")
    _log.debug("asked for offline batch %s", id)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(_run(settings))


def _count_as_one() -> None:
    """The work-horses of a batch worker, one after the other, count in the same files: each would leave its own."""
    if os.environ.get(COUNTERS):
        values.ValueClass = values.MultiProcessValue(lambda: "horses")  # type: ignore[no-untyped-call]


async def _run(settings: Settings) -> None:
    parent = os.getppid()
    _count_as_one()
    store = await open_store(settings.redis_url, prefix=settings.key_prefix)
    files = Files(store, settings.files)
    pools = sorted({spec.pool for spec in settings.backends}) or ["default"]
    try:
        async with (
            telling_of("doublebuffer-batch-worker") as telemetry,
            apart(settings, store, telemetry, pools) as parts,
            asyncio.TaskGroup() as group,
        ):
            runner = Runner(parts, Offline(store, files), files, lease_s=settings.lease_seconds)
            stopping = runner.stopping
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
            orphaned = group.create_task(_stop_without(parent, stopping))
            keepers = pulled_for(settings)
            pulling = Pulling(Pulls(store), keepers, connect_timeout_s=settings.connect_timeout_seconds)
            group.create_task(pulling.run(stopping))
            await pulling.looked.wait()
            await runner.run(until_idle=True)
            while pulling.busy and not await wait_for(stopping, PARENT_S):
                await runner.run(until_idle=True)
            stopping.set()
            orphaned.cancel()
    finally:
        await store.aclose()


def pulled_for(settings: Settings) -> dict[str, BackendSpec]:
    """The back ends that models can be pulled for, by name."""
    return {spec.name: spec for spec in settings.backends if spec.kind == "ollama"}


async def _stop_without(parent: int, stopping: asyncio.Event) -> None:
    """Nobody could end it any more: whoever killed the batch worker wants its work to end as well."""
    while os.getppid() == parent:  # noqa: ASYNC110 - a process has no event for that
        await asyncio.sleep(PARENT_S)
    _log.warning("the batch worker is gone; what is under way is put away")
    stopping.set()

"""``doublebuffer batch-worker``: a worker of RQ's, whose work-horses run offline batches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError, RedisError

from buffer.carrying import NO_CLUSTER, ask, carries, open_queue
from buffer.files import Files
from buffer.offline import Offline
from buffer.pulls import Pulls
from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from buffer.store import StoreUnavailable, open_store
from buffer.telemetry import Telemetry
from doublebuffer import VERSION
from doublebuffer.batch_task import inherited, pulled_for
from doublebuffer.metrics import metrics_served
from doublebuffer.starting import connect, needs_redis
from doublebuffer.telling import store_line

if TYPE_CHECKING:
    from rq import Queue

_log = logging.getLogger("doublebuffer.offline")
SWEEP_S = 1.0
"""How often it is looked for batches that nobody runs,"""
PATIENCE_S = 5.0
"""and how long a work-horse may take until it has one that it was asked for."""
SWEEP_FILES_S = 3600.0
OFFERED_S = 5.0
"""How long it is known that somebody pulls models for a back end."""
AGAIN_S = 1.0
NOT_ALLOWED = (
    "REDIS_URL: its user may not do what RQ needs, transactions (+@transaction) among it; docs/redis.md has the rights."
)
HEARTBEAT_S = 10
WORKER_TTL_S = 90


def run_batch_worker(settings: Settings) -> int:
    """Works until a signal; the exit code. Raises ``SettingsError``."""
    needs_redis(settings, "batch-worker")
    assert settings.redis_url is not None
    if not carries(settings.redis_url):
        raise SettingsError(NO_CLUSTER)
    asyncio.run(_look(settings))
    for name in ("rq.worker", "rq.job"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    queue = open_queue(settings.redis_url, settings.key_prefix)
    files = settings.files or "in Redis, as far as there is room (DOUBLEBUFFER_FILES is unset)"
    print(f"Doublebuffer {VERSION} batch worker\n  store      {store_line(settings)}\n  files      {files}", flush=True)
    with inherited(settings), _beside(settings, queue):
        return _work(queue)


async def _look(settings: Settings) -> None:
    """Raises ``SettingsError`` where the store cannot be used."""
    store = await connect(settings)
    await store.aclose()


def _work(queue: Queue) -> int:
    """One worker of RQ's after the other: it gives up where the store is away."""
    worker_class = _worker_class()
    while True:
        try:
            worker = worker_class(
                [queue],
                connection=queue.connection,
                serializer=queue.serializer,
                worker_ttl=WORKER_TTL_S,
                job_monitoring_interval=HEARTBEAT_S,
                log_job_description=False,
            )
        except NoPermissionError:
            raise SettingsError(NOT_ALLOWED) from None
        except RedisError:
            time.sleep(AGAIN_S)
            continue
        try:
            worker.work(logging_level=None)
        except NoPermissionError:
            raise SettingsError(NOT_ALLOWED) from None
        except RedisError as error:
            _log.warning("RQ lost the store: %s", type(error).__name__)
        finally:
            worker.end_horse()
        if worker.told_to_stop:
            return 0
        time.sleep(AGAIN_S)


def _worker_class() -> Any:
    """Imported late: by then it is known what all of RQ's keys begin with."""
    from rq import Worker

    class BatchWorker(Worker):
        """RQ's own, but that it ends in good order, and stays with its work-horse while the store is away."""

        told_to_stop = False

        def handle_warm_shutdown_request(self) -> None:
            """RQ's would wait for the end of a batch, for hours."""
            self.told_to_stop = True
            if self.horse_pid:
                self.kill_horse(signal.SIGTERM)

        def subscribe(self) -> None:
            """Nobody sends it commands by a channel: it would take a right and a thread."""

        def maintain_heartbeats(self, job: Any, execution: Any) -> None:
            with contextlib.suppress(RedisError):
                super().maintain_heartbeats(job, execution)

        def end_horse(self) -> None:
            """Where RQ gave up without it."""
            if self.horse_pid:
                self.kill_horse(signal.SIGTERM)
                self.wait_for_horse()

    return BatchWorker


@contextlib.contextmanager
def _beside(settings: Settings, queue: Queue) -> Iterator[None]:
    """In a thread: RQ's worker waits for its queue or for its work-horse. Raises ``SettingsError``."""
    ended = threading.Event()
    begun: Future[str] = Future()

    async def run() -> None:
        try:
            async with metrics_served(settings, Telemetry()) as address:
                begun.set_result(address)
                await _sweep(settings, queue, ended)
        except SettingsError as error:
            begun.set_exception(error)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="sweep", daemon=True)
    thread.start()
    if address := begun.result():
        print(f"  metrics    {address}", flush=True)
    try:
        yield
    finally:
        ended.set()
        thread.join(2 * SWEEP_S)


async def _sweep(settings: Settings, queue: Queue, ended: threading.Event) -> None:
    """Asks for each open batch that nobody runs, so that no lost job of RQ's loses one."""
    store = await open_store(settings.redis_url, prefix=settings.key_prefix)
    files = Files(store, settings.files)
    offline, pulls, keepers = Offline(store, files), Pulls(store), pulled_for(settings)
    asked: dict[str, float] = {}
    swept_at = float("-inf")
    try:
        while not ended.is_set():
            try:
                now_at = time.monotonic()
                await pulls.offer(keepers, OFFERED_S)
                ids = [*await offline.idle_ids(), *await pulls.idle()]
                asked = {id: at for id, at in asked.items() if now_at - at < PATIENCE_S}
                for id in ids:
                    if id not in asked:
                        await asyncio.to_thread(ask, queue, id)
                        asked[id] = now_at
                if now_at - swept_at > SWEEP_FILES_S:
                    await files.sweep()
                    swept_at = now_at
            except (StoreUnavailable, RedisError, OSError):
                pass
            await asyncio.sleep(SWEEP_S)
    finally:
        await store.aclose()

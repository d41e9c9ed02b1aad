"""The way to RQ, which carries offline batches where there is a Redis: its connection, its queue, who waits there.

RQ wants a plain Redis or a Sentinel's master: its keys lie anywhere, where a Cluster wants them in one place.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.sentinel import Sentinel

from buffer.store import sentinel_place

if TYPE_CHECKING:
    from rq import Queue

NO_CLUSTER = (
    "REDIS_URL: a Cluster cannot carry offline batches; RQ, which runs them, needs a plain Redis or a Sentinel's."
)
QUEUE = "offline"
TASK = "doublebuffer.batch_task.run_offline_batch"
ANSWER_S = 10.0
_CONNECT_S = 3.0


def carries(redis_url: str | None) -> bool:
    """Whether RQ could work there, or is not needed: None is the embedded store."""
    return redis_url is None or not redis_url.startswith("redis+cluster:")


def open_queue(redis_url: str, prefix: str) -> Queue:
    """RQ's queue, on connections of its own. ``prefix``: of all keys; RQ's own begin with it as well, the same for the
    whole life of a process.
    """
    os.environ["RQ_KEY_PREFIX"] = f"{prefix}:rq"  # read when it is imported
    from rq import Queue
    from rq.serializers import JSONSerializer

    return Queue(QUEUE, connection=_connect(redis_url), serializer=JSONSerializer)


def ask(queue: Queue, batch: str) -> bool:
    """Has somebody run an offline batch, or a pull. False: it waits there already. Raises redis-py's ``RedisError``."""
    ids: list[str] = queue.get_job_ids()
    if any(id.startswith(batch) for id in ids):
        return False
    # Never under a name that was there before: RQ may still have something to say of that one's end.
    queue.enqueue(
        TASK,
        batch,
        job_id=f"{batch}-{os.urandom(4).hex()}",
        job_timeout=-1,
        result_ttl=0,
        failure_ttl=3600,
        description=f"offline {batch}",
    )
    return True


def _connect(redis_url: str) -> Redis:
    options: dict[str, Any] = {"socket_connect_timeout": _CONNECT_S, "socket_timeout": ANSWER_S, "protocol": 2}
    if not redis_url.startswith("redis+sentinel:"):
        return Redis.from_url(redis_url, **options)
    place = sentinel_place(redis_url)
    sentinels: Any = Sentinel(place.hosts, sentinel_kwargs={**options, **place.login}, **options)  # type: ignore[no-untyped-call]
    master: Redis = sentinels.master_for(place.service, db=place.db, **place.login)
    return master

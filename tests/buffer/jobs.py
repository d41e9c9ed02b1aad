"""Jobs and steps that many tests of the lanes take."""

from __future__ import annotations

from typing import Any

from buffer.job import LANES, Content, Event, encode_events
from buffer.lanes import Lanes
from buffer.records import Granted, Limits, NewJob, Pulled
from buffer.said import Chunk

INBOX = "gate:1"
LEASE_S = 15.0
START = 1_700_000_000_000_000
MANY = Limits(slots=1000)
SHARE = ("kv", "prefill", "long", "lane", "arr", "score", "prompt", "upto", "had")
"""What a back end's load has of each job."""


class Clock:
    """The store's time, in a test's hands. µs."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)


def clocked(lanes: Lanes) -> Clock:
    clock = Clock()
    lanes.clock = clock
    return clock


async def at_home(lanes: Lanes) -> None:
    """The inbox is there."""
    await lanes.create_inbox(INBOX)


async def ready(lanes: Lanes) -> Clock:
    """A clock in the test's hands, and the inbox there."""
    clock = clocked(lanes)
    await lanes.create_inbox(INBOX)
    return clock


def job(id: str, **fields: Any) -> NewJob:
    values: dict[str, Any] = {
        "model": "m",
        "lane": "fast",
        "user": "u",
        "inbox": INBOX,
        "body": b"{}",
        "cost": 100,
        "kv": 10,
        "prefill": 5,
    }
    return NewJob(id=id, **{**values, **fields})


async def pull(lanes: Lanes, want: int = 1, *, limits: Limits = MANY, worker: str = "w", **more: Any) -> Pulled:
    more = {"backend": "b", "models": ["m"], "lease_s": LEASE_S, "lanes": more.pop("only", LANES), **more}
    return await lanes.pull(worker, more.pop("backend"), more.pop("models"), want=want, limits=limits, **more)


async def ids(lanes: Lanes, want: int = 1, **more: Any) -> list[str]:
    return [granted.id for granted in (await pull(lanes, want, **more)).jobs]


async def running(lanes: Lanes, id: str = "a", **fields: Any) -> Granted:
    """A job submitted and pulled, its inbox made."""
    await lanes.create_inbox(INBOX)
    await lanes.submit(job(id, **fields))
    (granted,) = (await pull(lanes)).jobs
    assert granted.id == id
    return granted


def words(*texts: str) -> list[Event]:
    return [Content(text) for text in texts]


def chunk(granted: Granted, n0: int, *texts: str) -> Chunk:
    return Chunk(granted.id, granted.fence, n0, n0 + len(texts) - 1, encode_events(words(*texts)))


async def record(lanes: Lanes, id: str) -> dict[str, str]:
    """A job's hash."""
    fields = await lanes.store.redis.hgetall(lanes.keys.job(id))
    return {name.decode(): value.decode() for name, value in fields.items()}


async def carried(lanes: Lanes, id: str = "a", backend: str = "b") -> dict[str, str]:
    """What a back end's load has of a job."""
    share = await lanes.store.redis.hget(lanes.keys.load(backend), id)
    return {} if share is None else dict(zip(SHARE, share.decode().split(","), strict=True))


async def frames(lanes: Lanes, inbox: str = INBOX) -> list[dict[str, str]]:
    """What scripts put into an inbox."""
    entries = await lanes.store.redis.xrange(lanes.keys.inbox(inbox))
    read = [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries]
    return [fields for fields in read if "id" in fields]


async def kinds(lanes: Lanes, id: str) -> list[tuple[str, str]]:
    """The reply key: entry id, kind."""
    return [(entry_id, fields[b"k"].decode()) for entry_id, fields in await lanes.reply(id)]


async def is_quiet(lanes: Lanes) -> bool:
    """Nothing waits, runs, or is leased."""
    keys = lanes.keys
    quiet = True
    for left in await lanes.leftovers():
        name = left.key.removeprefix(keys.base)
        if name.startswith(("wait:", "turn:", "due:", "load:")) or name == "lease":
            quiet = False
        if name.startswith("jobs:") and await lanes.store.redis.xlen(left.key):
            quiet = False
    return quiet

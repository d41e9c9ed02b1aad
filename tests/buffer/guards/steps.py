"""What the tests of the guards begin with."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.outcomes import Requeued
from buffer.past import Past
from buffer.records import GivenBack, Granted, Submitted
from tests.buffer.jobs import INBOX, LEASE_S, Clock, clocked, job, pull, record, running


async def give_back(lanes: Lanes, granted: Granted, why: Any = "drain", *, n: int = 1, **more: Any) -> str:
    """``release``."""
    return await lanes.release(granted.id, granted.fence, n, GivenBack(why, **more))


async def requeue(lanes: Lanes, fence: int, *, id: str = "a", inbox: str = INBOX) -> Requeued:
    """With nothing said."""
    return await lanes.requeue(id, fence, snapshot="", base="", spent=0, inbox=inbox)


async def taken_over(lanes: Lanes, **fields: Any) -> tuple[Granted, Granted]:
    """A job that its first owner lost to a second: both grants."""
    first = await running(lanes, **fields)
    await requeue(lanes, first.fence)
    (second,) = (await pull(lanes, worker="w2")).jobs
    return first, second


def past(granted: Granted, **fields: Any) -> Past:
    """What its gateway knows of a job that ran under this grant."""
    values: dict[str, Any] = {"age_us": 0, "floor": granted.fence, "have": 1, "backend": "b", "waiting": False}
    values |= fields
    return Past(job=values.pop("job", None) or job(granted.id), **values)


async def restore(lanes: Lanes, one: Past) -> Submitted:
    (submitted,) = await lanes.restore([one], LEASE_S)
    return submitted


async def forget(lanes: Lanes) -> None:
    """The store comes back empty, but for the inbox and its clock."""
    names = [left.key for left in await lanes.leftovers()]
    kept = (lanes.keys.inbox(INBOX), lanes.keys.swept)
    await lanes.store.redis.delete(*(name for name in names if name not in kept))


async def restored(lanes: Lanes, **fields: Any) -> Granted:
    """The grant of a job that the store has lost since, and has again: its worker has not come for it yet."""
    granted = await running(lanes)
    await forget(lanes)
    assert (await restore(lanes, past(granted, **fields))).status == "restored"
    return granted


async def swept(lanes: Lanes) -> Clock:
    """A clock in the test's hands, and the inbox there; the reaper has just been by."""
    clock = clocked(lanes)
    await lanes.create_inbox(INBOX)
    await lanes.reap(LEASE_S)
    return clock


async def pass_by(lanes: Lanes, clock: Clock, seconds: float) -> None:
    """So long; reapers come by each quarter of a lease, and the gateway watches its inbox."""
    end = clock.now + round(seconds * 1_000_000)
    while clock.now < end:
        clock.forward(min(LEASE_S / 4, (end - clock.now) / 1e6))
        await lanes.watch(INBOX, [])
        await lanes.reap(LEASE_S)


async def ids_in(lanes: Lanes, name: str) -> list[str]:
    """Members of a sorted set, or fields of a hash, by the name of the key after the pool's base."""
    redis, key = lanes.store.redis, lanes.keys.base + name
    kind = await redis.type(key)
    if (kind.decode() if isinstance(kind, bytes) else kind) == "hash":
        return sorted(field.decode() for field in await redis.hkeys(key))
    return [member.decode() for member in await redis.zrange(key, 0, -1)]


async def change(lanes: Lanes, id: str, **fields: Any) -> None:
    """Fields of a job's record, as no script would leave them now."""
    await lanes.store.redis.hset(lanes.keys.job(id), mapping=fields)


async def state(lanes: Lanes, id: str = "a") -> str:
    """``gone``: there is no record."""
    return (await record(lanes, id)).get("st", "gone")


async def lifetime(lanes: Lanes, name: str) -> int:
    """Seconds; -2: there is no such key."""
    left: int = await lanes.store.redis.ttl(lanes.keys.base + name)
    return left


async def length(lanes: Lanes, name: str) -> int:
    """Entries of a stream."""
    entries: int = await lanes.store.redis.xlen(lanes.keys.base + name)
    return entries


async def letters(lanes: Lanes) -> list[str]:
    """Reasons of the dead letters."""
    return [fields[b"reason"].decode() for _, fields in await lanes.store.redis.xrange(lanes.keys.dead)]

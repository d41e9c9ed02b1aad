"""The whole of a pool's state at one instant, read with plain commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from buffer.job import LANES, Lane
from buffer.keys import Keys
from tests.properties.server import Server

TEXTS = ("st", "model", "lane", "user", "inbox", "entry", "backend", "worker", "cancel", "left", "owner")
NUMBERS = ("fence", "arr", "due", "kv", "prefill", "long", "deadline", "read", "left_until", "share", "score")
READING = ("prompt", "splits", "upto", "had")
SHORT = ("worker", "workers", "state", "states", "crowd", "pace")
FIELDS = (*TEXTS, *NUMBERS, *READING, "det")


class Share(NamedTuple):
    """What a back end's load has of a job."""

    kv: int
    prefill: int
    long: int
    lane: str
    arr: int
    score: int
    prompt: int
    upto: int
    had: int

    @classmethod
    def read(cls, share: str) -> Share:
        kv, prefill, long, lane, *numbers = share.split(",")
        return cls(int(kv), int(prefill), int(long), lane, *map(int, numbers))


@dataclass(frozen=True)
class Record:
    id: str
    st: str
    fence: int
    model: str
    lane: Lane
    user: str
    arr: int
    due: int
    kv: int
    prefill: int
    long: int
    inbox: str
    entry: str
    backend: str
    det: bool
    deadline: int
    read: int
    worker: str
    cancel: str
    left: str
    left_until: int
    owner: str
    share: int
    score: int
    prompt: int
    splits: int
    upto: int
    had: int

    @property
    def takes(self) -> Share:
        """What it takes of a back end while it runs."""
        had = self.upto if self.read == self.fence else self.had
        prefill = 0 if self.lane == "fast" else self.upto - had
        return Share(self.kv, prefill, self.long, self.lane, self.arr, self.score, self.prompt, self.upto, had)


@dataclass
class State:
    jobs: dict[str, Record]
    """Of all jobs asked for that have a record."""
    bodies: set[str]
    inboxes: set[str]
    wait: dict[tuple[str, Lane], set[str]]
    turn: dict[tuple[str, Lane], set[str]]
    due: dict[str, set[str]]
    lease: set[str]
    load: dict[str, dict[str, Share]]
    entries: dict[tuple[Lane, str], str]
    """Lane, entry of ``jobs:<lane>`` → job."""
    careful_at: dict[str, float]
    """Back end → before when no more background work is sent there to be read, since people are about."""


def look(
    server: Server,
    keys: Keys,
    ids: Iterable[str],
    models: Sequence[str],
    backends: Sequence[str],
    *,
    closely: bool = False,
) -> State:
    """``closely``: also which jobs have a body, which inboxes are there, and what is read with care."""
    ids = list(ids)
    queues = [(model, lane) for model in models for lane in LANES]
    there = set(server.names())
    read: dict[str, tuple[Any, ...]] = {keys.job(one): ("HMGET", keys.job(one), *FIELDS) for one in ids}
    for queue in queues:
        read |= {key: ("ZRANGE", key, 0, -1) for key in (keys.wait(*queue), keys.turn(*queue))}
    read |= {keys.due(model): ("ZRANGE", keys.due(model), 0, -1) for model in models}
    read |= {keys.load(backend): ("HGETALL", keys.load(backend)) for backend in backends}
    read |= {keys.jobs(lane): ("XRANGE", keys.jobs(lane), "-", "+") for lane in LANES}
    read[keys.lease] = ("ZRANGE", keys.lease, 0, -1)
    read = {key: command for key, command in read.items() if key in there}
    found = dict(zip(read, server.ask(list(read.values())), strict=True))
    records = {one: found.get(keys.job(one)) for one in ids}
    jobs = {one: _record(one, values) for one, values in records.items() if values and values[0] is not None}
    bodies: set[str] = set()
    if closely:
        whether = server.ask([("HEXISTS", keys.job(one), "body") for one in jobs])
        bodies = {one for one, has in zip(jobs, whether, strict=True) if has}
    heeded = server.ask([("HGET", keys.heed(one), "next") for one in backends]) if closely else []
    careful_at = {one: float(at or 0) for one, at in zip(backends, heeded, strict=closely)}
    wait = {queue: _names(found.get(keys.wait(*queue), ())) for queue in queues}
    turn = {queue: {name[17:] for name in _names(found.get(keys.turn(*queue), ()))} for queue in queues}
    due = {model: _names(found.get(keys.due(model), ())) for model in models}
    load = {backend: _shares(found.get(keys.load(backend), [])) for backend in backends}
    entries = {
        (lane, one.decode()): fields[b"id"].decode() for lane in LANES for one, fields in found.get(keys.jobs(lane), ())
    }
    lease = _names(found.get(keys.lease, ()))
    inboxes = {job.inbox for job in jobs.values() if keys.inbox(job.inbox) in there}
    return State(jobs, bodies, inboxes, wait, turn, due, lease, load, entries, careful_at)


def _record(job_id: str, values: Sequence[bytes | None]) -> Record:
    text = {name: (value or b"").decode() for name, value in zip(FIELDS, values, strict=True)}
    numbers: dict[str, Any] = {name: int(text[name] or 0) for name in (*NUMBERS, *READING)}
    fields: dict[str, Any] = {name: text[name] for name in TEXTS}
    return Record(id=job_id, det=text["det"] == "1", **fields, **numbers)


def _names(members: Iterable[bytes]) -> set[str]:
    return {member.decode() for member in members}


def _shares(load: dict[bytes, bytes] | list[bytes]) -> dict[str, Share]:
    pairs = load.items() if isinstance(load, dict) else zip(load[::2], load[1::2], strict=True)
    return {job_id.decode(): Share.read(share.decode()) for job_id, share in pairs}


def dump(server: Server) -> dict[str, Any]:
    """Everything that the pool's keys hold, lifetimes apart, but what lives for seconds of real time."""
    keys = [name for name in server.names() if name.partition("}:")[2].partition(":")[0] not in SHORT]
    kinds = server.ask([("TYPE", key) for key in keys])
    reads: dict[str, Callable[[str], tuple[Any, ...]]] = {
        "hash": lambda key: ("HGETALL", key),
        "zset": lambda key: ("ZRANGE", key, 0, -1, "WITHSCORES"),
        "stream": lambda key: ("XRANGE", key, "-", "+"),
        "set": lambda key: ("SMEMBERS", key),
        "string": lambda key: ("GET", key),
    }
    kinds = [kind.decode() if isinstance(kind, bytes) else kind for kind in kinds]
    there = [(key, kind) for key, kind in zip(keys, kinds, strict=True) if kind in reads]
    values = server.ask([reads[kind](key) for key, kind in there])
    return {key: value for (key, _), value in zip(there, values, strict=True)}

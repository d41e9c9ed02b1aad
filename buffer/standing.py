"""How one request stands: what its job's record and its answer tell whoever asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

from buffer.access import Command
from buffer.fold import END_KINDS
from buffer.job import End, Lane, decode_end
from buffer.keys import DONE_JOB_S, DONE_REPLY_S
from buffer.lanes import Lanes
from buffer.pace import Paced, read_pace

State = Literal["waiting", "running", "done", "failed", "cancelled", "expired"]

_FIELDS = (
    *("st", "owner", "lane", "model", "backend", "det", "arr", "started", "first", "ended", "fails", "taken", "tries"),
    *("cancel", "end"),
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Instants are in microseconds of the store's clock; 0: not yet."""

    id: str
    owner: str
    """Who made it, as ``NewJob.owner``."""
    state: State
    lane: Lane
    model: str
    """Queue name of the model."""
    backend: str
    """The one that is at it, or was last; empty: none yet."""
    det: bool
    ahead: int
    """Jobs that come before it, if it waits."""
    arrived_us: int
    started_us: int
    first_us: int
    ended_us: int
    tries: int
    """How often a worker took it."""
    fails: int
    """How often a back end failed it."""
    taken: int
    """How often its worker died."""
    cancelling: bool
    """Its worker has been told to stop."""
    end: End | None
    told: bytes
    """``NewJob.told``."""
    paced: Paced
    """When pieces of its prompt were read and tokens of its answer came, in the attempt that ended it."""


async def read_standing(lanes: Lanes, id: str) -> Standing | None:
    """None: nobody knows of it, or its answer is gone by now. Raises ``StoreUnavailable``."""
    reply = lanes.keys.reply(id)
    place = lanes.store.call("place", keys=[lanes.keys.base], args=[lanes.clock(), id])
    # The record first: of a job that has ended by then, the end is there.
    commands: list[Command] = [
        ("HMGET", lanes.keys.job(id), "pace", *_FIELDS),
        place,
        ("XRANGE", reply, "-", "+", "COUNT", 1),
        ("XREVRANGE", reply, "+", "-", "COUNT", 1),
        ("TTL", lanes.keys.job(id)),
    ]
    results = await lanes.store.exchange(commands)
    for result in results:
        if isinstance(result, Exception):
            raise result
    (pace, *values), found, first, last, left_s = results
    record = {name: _text(value) for name, value in zip(_FIELDS, values, strict=True)}
    end: End | None = None
    if record["st"] == "done" and last and last[0][1][b"k"].decode() in END_KINDS:
        end = decode_end(last[0][1][b"d"])
    elif record["end"] == "cancelled" and not last and left_s > DONE_JOB_S - DONE_REPLY_S:
        # What it had said is dropped sooner than that.
        end = End("cancelled")
    if not record["st"] or (end is None and (record["st"] == "done" or not first)):
        return None
    state = end.kind if end is not None else "waiting" if record["st"] == "waiting" else "running"
    number = {name: int(record[name] or 0) for name in ("arr", "started", "first", "ended", "tries", "fails", "taken")}
    return Standing(
        id=id,
        owner=record["owner"],
        state=state,
        lane=cast(Lane, record["lane"]),
        model=record["model"],
        backend=record["backend"],
        det=record["det"] == "1",
        ahead=found[1],
        arrived_us=number["arr"],
        started_us=number["started"],
        first_us=number["first"],
        ended_us=number["ended"],
        tries=number["tries"],
        fails=number["fails"],
        taken=number["taken"],
        cancelling=record["cancel"] != "",
        end=end,
        told=first[0][1].get(b"d", b"") if first and first[0][1].get(b"k") == b"queued" else b"",
        paced=read_pace(pace or b""),
    )


def _text(value: Any) -> str:
    return "" if value is None else cast(bytes, value).decode()

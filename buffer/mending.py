"""Keys of ours that somebody else wrote to: what no script can work with is dropped, and leaves a dead letter.

That is for accidents: a tool that was pointed at the wrong database, a hand that slipped. Jobs that are hit are gone;
their gateways find that out as after an empty restart.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from buffer.trouble import SPOILT, unavailable

if TYPE_CHECKING:
    from buffer.access import Store

log = logging.getLogger("doublebuffer.buffer")

SCAN_AT_ONCE = 1000
LOOK_AGAIN_S = 5.0
MOST_TOLD = 8
"""Names in a log line."""
_BASE = re.compile(r"^.*?\{[^}]*\}:")
_TYPES = {
    "job": "hash",
    "reply": "stream",
    "jobs": "stream",
    "wait": "zset",
    "turn": "zset",
    "due": "zset",
    "fair": "zset",
    "lease": "zset",
    "load": "hash",
    "pace": "string",
    "places": "hash",
    "memory": "hash",
    "spare": "hash",
    "backends": "set",
    "models": "zset",
    "inputs": "hash",
    "inbox": "stream",
    "ctl": "stream",
    "bell": "stream",
    "swept": "string",
    "sweep": "hash",
    "dead": "stream",
    "gateway": "string",
    "gateways": "zset",
    "worker": "string",
    "workers": "zset",
    "state": "string",
    "states": "zset",
}
"""By a name's first word."""
_NUMBERS = (
    *("fence", "n", "score", "tag", "due", "arr", "cost", "kv", "prefill", "long", "deadline", "taken", "fails"),
    *("read", "inputs", "left_until", "able_until", "prompt", "upto", "had"),
)
_MAY_LACK = {"read", "inputs", "left_until", "able_until", "prompt", "upto", "had"}
_NUMBER = re.compile(rb"^-?\d+(\.\d+)?$")
_ENTRY = re.compile(rb"^\d+-\d+$")
_SHARE = re.compile(rb"^\d+,\d+,\d+,[a-z]+(,\d+){5}$")


class Mending:
    """When to look: after a script or a command that failed at what it found, once for all that did so."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._looked_at = float("-inf")
        self._dropped_at = float("-inf")

    async def due_to(self, name: str, key: str, began_at: float) -> bool:
        """``name`` failed, begun at ``began_at``, on the pool that ``key`` is of. True: something was dropped since.

        Where a look found nothing, the next one is not before ``LOOK_AGAIN_S``. Raises ``StoreUnavailable``.
        """
        now = asyncio.get_running_loop().time
        async with self._turn:
            if self._dropped_at > began_at:
                return True
            if self._looked_at > self._dropped_at and now() - self._looked_at < LOOK_AGAIN_S:
                return False
            gone = await mend(self._store, key)
            self._looked_at = now()
            if gone:
                self._dropped_at = self._looked_at
            log.error("%s met what Doublebuffer never wrote; dropped: %s", name, gone or "nothing")
            return bool(gone)


async def mend(store: Store, key: str) -> str:
    """Looks through all keys of the pool that ``key`` is of. Names of those that it dropped, as a log may tell them.

    Raises ``StoreUnavailable``.
    """
    found = _BASE.match(key)
    if found is None:
        return ""
    base = found[0]
    dropped: list[str] = []
    cursor: Any = 0
    while True:
        pattern = base.replace("[", "\\[") + "*"
        cursor, names = await _ask(store, "SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_AT_ONCE)
        if names:
            dropped += await _look_through(store, base, sorted(set(names)))
        if int(cursor) == 0:
            break
    more = f" and {len(dropped) - MOST_TOLD} more" if len(dropped) > MOST_TOLD else ""
    return ", ".join(dropped[:MOST_TOLD]) + more


async def _look_through(store: Store, base: str, names: list[bytes]) -> list[str]:
    kinds = await store.pipeline([("TYPE", name) for name in names], again=True, patient=True)
    dropped = []
    for name, kind in zip(names, kinds, strict=True):
        rest = name.decode(errors="replace").removeprefix(base)
        word = rest.partition(":")[0]
        wanted = _TYPES.get(word)
        is_kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        if wanted is None or is_kind == "none":
            continue
        if is_kind != wanted:
            await _drop(store, base, name, rest, f"a {is_kind} where a {wanted} belongs")
            dropped.append(rest)
        elif word in _CONTENTS and await _CONTENTS[word](store, base, name, rest):
            dropped.append(rest)
    return dropped


async def _job(store: Store, base: str, name: bytes, rest: str) -> bool:
    values = await _ask(store, "HMGET", name, "st", *_NUMBERS)
    state, *numbers = values
    if state is None:
        return False
    for field, value in zip(_NUMBERS, numbers, strict=True):
        if not (value is None and field in _MAY_LACK) and not _NUMBER.match(value or b""):
            await _drop(store, base, name, rest, f"its field {field} is no number")
            return True
    return False


async def _load(store: Store, base: str, name: bytes, rest: str) -> bool:
    values = await _ask(store, "HGETALL", name)
    wrong = [field for field, value in values.items() if not _SHARE.match(value)]
    if wrong:
        await _ask(store, "HDEL", name, *wrong)
    return bool(wrong)


async def _swept(store: Store, base: str, name: bytes, rest: str) -> bool:
    value = await _ask(store, "GET", name)
    if value is None or _NUMBER.match(value):
        return False
    await _drop(store, base, name, rest, "no number")
    return True


async def _sweep(store: Store, base: str, name: bytes, rest: str) -> bool:
    values = await _ask(store, "HGETALL", name)
    if all(_ENTRY.match(value) for value in values.values()):
        return False
    await _drop(store, base, name, rest, "no ids")
    return True


_CONTENTS = {
    "job": _job,
    "load": _load,
    "swept": _swept,
    "sweep": _sweep,
}


async def _drop(store: Store, base: str, name: bytes, rest: str, reason: str) -> None:
    """The dead letter is written by whoever dropped it: two may come upon it at a time."""
    if await _ask(store, "DEL", name):
        word, _, id = rest.partition(":")
        letter = ("id", id if word == "job" else "", "model", "", "lane", "", "user", "", "reason", f"{word}: {reason}")
        await _ask(store, "XADD", f"{base}dead", "MAXLEN", "~", 1000, "*", *letter, "at", "0")


async def _ask(store: Store, *command: Any) -> Any:
    (result,) = await store.pipeline([command], again=True, patient=True)
    if isinstance(result, Exception):
        raise unavailable(SPOILT) from result
    return result

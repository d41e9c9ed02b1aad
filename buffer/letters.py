"""Dead letters: jobs that were given up, with their reasons. They keep no text; a job's own record may for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from buffer.embed import pool_of
from buffer.keys import Keys
from buffer.store import Store, StoreUnavailable

Retried = Literal["queued", "open", "gone", "without body"]
"""``open``: it waits or runs already. ``gone``: there is no record of it any more."""


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter."""

    entry: str
    """Its id in the stream."""
    pool: str
    id: str
    """The job's."""
    model: str
    """As model lists name it; of a job whose record was gone, its queue name."""
    lane: str
    user: str
    """As turns know users: ``key:<name>``, ``address:<ip>``, ``person:<id>`` or ``hash:<hash>``."""
    reason: str
    at_us: int
    """Instant of its end by the store's clock, microseconds since 1970."""


async def letter_pools(store: Store, known: Iterable[str]) -> list[str]:
    """The ``known`` pools of back ends, those of their embeddings, and whatever others the store has dead letters of.

    The others are looked for as far as the store allows: in a Cluster on one node. Raises ``StoreUnavailable``.
    """
    names = {name for pool in known for name in (pool, pool_of(pool))}
    head, tail = f"{store.prefix}:{{", "}:dead"
    cursor: Any = 0
    # A user of Redis that may not look for keys still sees the pools that are configured.
    with contextlib.suppress(StoreUnavailable):
        while True:
            ((cursor, found),) = await store.exchange([("SCAN", cursor, "MATCH", f"{head}*{tail}", "COUNT", 1000)])
            names |= {key.decode().removeprefix(head).removesuffix(tail) for key in found}
            if int(cursor) == 0:
                break
    return sorted(names)


class Letters:
    """The dead letters of one pool. All methods raise ``StoreUnavailable``."""

    def __init__(self, store: Store, pool: str) -> None:
        self._store = store
        self._pool = pool
        self._keys = Keys(pool, store.prefix)
        self.clock: Callable[[], int] = lambda: 0
        """The instant given to the script, µs. 0, as always but in tests: the store's own clock."""

    async def all(self) -> list[Letter]:
        """The oldest first; a pool keeps the last thousand or so."""
        entries = await self._one("XRANGE", self._keys.dead, "-", "+")
        return [self._letter(entry.decode(), fields) for entry, fields in entries]

    def _letter(self, entry: str, fields: dict[bytes, bytes]) -> Letter:
        told = {name.decode(): value.decode() for name, value in fields.items()}
        return Letter(
            entry,
            self._pool,
            told.get("id", ""),
            told.get("model", ""),
            told.get("lane", ""),
            told.get("user", ""),
            told.get("reason", ""),
            int(told.get("at", "0")),
        )

    async def drop(self, letters: Sequence[Letter]) -> int:
        """How many there were."""
        if not letters:
            return 0
        return cast(int, await self._one("XDEL", self._keys.dead, *(letter.entry for letter in letters)))

    async def has_body(self, id: str) -> bool:
        """Whether the request itself is still there, so that it can be tried again."""
        return cast(int, await self._one("HEXISTS", self._keys.job(id), "body")) == 1

    async def retry(self, id: str) -> Retried:
        """Puts a job that ended back into its queue, as if it had just been submitted; its place is its old one."""
        reply = await self._store.script("retry", keys=[self._keys.base], args=[self.clock(), id])
        self._store.ring("jobs")
        return cast(Retried, reply.decode())

    async def _one(self, *command: Any) -> Any:
        (result,) = await self._store.exchange([command])
        if isinstance(result, Exception):
            raise result
        return result

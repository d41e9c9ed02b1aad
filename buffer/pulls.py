"""Pulls of models that outlive whoever asked for them: one at a time of a model at a back end, and all who want it see
how far it is. A batch worker carries them out.

    pulls = Pulls(store)
    await pulls.offer(["ollama"], ttl_s)                   # a batch worker: what it can pull for
    pull = await pulls.begin("ollama", body)               # joins one that is under way
    lines, ended, after = await pulls.follow(pull, after, block_s)

Whoever carries one out:

    for id in await pulls.idle(): ...
    if await pulls.take(id, me, lease_s): backend, body = await pulls.read(id)
    await pulls.tell(id, line); await pulls.renew(id, me, lease_s); await pulls.end(id, last)

All raise ``StoreUnavailable``.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from buffer.access import Store
from buffer.offline_keys import OfflineKeys
from buffer.offline_lists import ask

OPEN_S = 86_400
"""Longest that a pull is known,"""
ENDED_S = 60
"""and how long what was told of it outlives its end."""
_MOST_LINES = 100
_AT_ONCE = 50


class Pull(NamedTuple):
    """One that was begun."""

    id: str
    begun: str
    """What was told of it comes behind this."""


class Told(NamedTuple):
    """What is new of a pull."""

    lines: list[bytes]
    ended: bool
    """The last of them is its end."""
    after: str


class Pulls:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._base = OfflineKeys(store.prefix).base

    async def offer(self, backends: Iterable[str], ttl_s: float) -> None:
        """Says for ``ttl_s`` seconds that somebody can pull models for these."""
        calls = [("SET", f"{self._base}puller:{name}", "", "PX", round(ttl_s * 1000)) for name in backends]
        if calls:
            await ask(self._store, *calls)

    async def offered(self, backend: str) -> bool:
        (there,) = await ask(self._store, ("EXISTS", f"{self._base}puller:{backend}"))
        return bool(there)

    async def begin(self, backend: str, body: bytes) -> Pull:
        """``body``: as the back end is to be sent it."""
        id = blake2b(backend.encode() + b"\n" + body, digest_size=16).hexdigest()
        key, lines = self._key(id), self._lines(id)
        (begun,) = await ask(self._store, ("XADD", lines, "MAXLEN", "~", _MOST_LINES, "*", "k", "begun"))
        _, _, _, first, _, _ = await ask(
            self._store,
            ("HSETNX", key, "begun", begun),
            ("HSET", key, "backend", backend, "body", body),
            ("EXPIRE", key, OPEN_S),
            ("HGET", key, "begun"),
            ("EXPIRE", lines, OPEN_S),
            ("SADD", f"{self._base}pulls", id),
        )
        await ask(self._store, ("EXPIRE", f"{self._base}pulls", OPEN_S))
        return Pull(id, first.decode())

    async def follow(self, pull: Pull, after: str, block_s: float) -> Told:
        """What was told behind ``after`` (empty: from its beginning), waited for at most ``block_s`` seconds."""
        key = self._lines(pull.id)
        found = await self._store.read_streams({key: after or pull.begun}, block_s, _AT_ONCE)
        lines, ended = [], False
        for _, entries in found:
            for entry, fields in entries:
                after = entry
                if b"l" in fields:
                    lines.append(fields[b"l"])
                if fields.get(b"k") == b"end":
                    return Told(lines, True, after)
        return Told(lines, ended, after or pull.begun)

    async def there(self, pull: Pull) -> bool:
        """Whether it is still under way."""
        (begun,) = await ask(self._store, ("HGET", self._key(pull.id), "begun"))
        return bool(begun == pull.begun.encode())

    # --- whoever carries them out

    async def idle(self) -> list[str]:
        """Those under way that nobody carries out."""
        (found,) = await ask(self._store, ("SMEMBERS", f"{self._base}pulls"))
        ids = [id.decode() for id in found]
        if not ids:
            return []
        known = await ask(self._store, *(("EXISTS", self._holder(id)) for id in ids))
        return sorted(id for id, held in zip(ids, known, strict=True) if not held)

    async def take(self, id: str, me: str, lease_s: float) -> bool:
        (taken,) = await ask(self._store, ("SET", self._holder(id), me, "NX", "PX", round(lease_s * 1000)))
        return bool(taken)

    async def renew(self, id: str, me: str, lease_s: float) -> None:
        """Two that pull the same model at one back end do no harm: it makes one of them."""
        await ask(self._store, ("SET", self._holder(id), me, "PX", round(lease_s * 1000)))

    async def release(self, id: str) -> None:
        await ask(self._store, ("DEL", self._holder(id)))

    async def read(self, id: str) -> tuple[str, bytes] | None:
        """Back end and body. None: it is under way no more, and forgotten now."""
        (found,) = await ask(self._store, ("HMGET", self._key(id), "backend", "body"))
        backend, body = found
        if backend is None or body is None:
            await ask(self._store, ("SREM", f"{self._base}pulls", id))
            return None
        return backend.decode(), body

    async def tell(self, id: str, line: bytes) -> None:
        await ask(self._store, ("XADD", self._lines(id), "MAXLEN", "~", _MOST_LINES, "*", "l", line))

    async def end(self, id: str, line: bytes) -> None:
        """``line``: the last; of a success, or of an error."""
        lines = self._lines(id)
        await ask(
            self._store,
            ("XADD", lines, "MAXLEN", "~", _MOST_LINES, "*", "k", "end", "l", line),
            ("EXPIRE", lines, ENDED_S),
            ("SREM", f"{self._base}pulls", id),
            ("DEL", self._key(id), self._holder(id)),
        )

    def _key(self, id: str) -> str:
        return f"{self._base}pull:{id}"

    def _lines(self, id: str) -> str:
        return f"{self._base}pull:{id}:lines"

    def _holder(self, id: str) -> str:
        return f"{self._base}pull:{id}:holder"

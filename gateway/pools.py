"""The pools of back ends that this gateway submits to: one set of lanes and one inbox each."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from buffer.embed import pool_of
from buffer.inbox import Inbox
from buffer.lanes import Lanes
from buffer.settings import Settings
from buffer.store import Store


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    lanes: Lanes
    inbox: Inbox


def open_pools(store: Store, names: Iterable[str], settings: Settings) -> Mapping[str, Pool]:
    """Pools by name, their inboxes yet to be created and run."""
    return {name: _open(store, name, name, settings) for name in names}


def open_embedding_pools(store: Store, names: Iterable[str], settings: Settings) -> Mapping[str, Pool]:
    """The pools in which embeddings wait, by the names of their back ends' pools."""
    return {name: _open(store, name, pool_of(name), settings) for name in names}


def _open(store: Store, name: str, kept_as: str, settings: Settings) -> Pool:
    lanes = Lanes(store, kept_as)
    inbox = Inbox(lanes, secrets.token_hex(8), lease_s=settings.lease_seconds, resume=settings.resume)
    return Pool(name, lanes, inbox)

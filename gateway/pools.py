"""The pools of back ends that this gateway submits to: one set of lanes and one inbox each."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from buffer.inbox import Inbox
from buffer.lanes import Lanes
from buffer.store import Store


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    lanes: Lanes
    inbox: Inbox


def open_pools(store: Store, names: Iterable[str]) -> Mapping[str, Pool]:
    """Pools by name, their inboxes yet to be created and run."""
    gateway = secrets.token_hex(8)
    pools: dict[str, Pool] = {}
    for name in names:
        lanes = Lanes(store, name)
        pools[name] = Pool(name, lanes, Inbox(lanes, gateway))
    return pools

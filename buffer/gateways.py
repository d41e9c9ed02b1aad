"""What gateways tell of themselves, for whoever looks for mistakes: each with a lifetime of its own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from buffer.access import Store
from buffer.keys import Keys
from buffer.lanes import Lanes
from buffer.load import publish, read


class GatewayPresence(Struct, omit_defaults=True, kw_only=True):
    """A gateway that lives, and what it noted of its requests since it was started. Nothing in it is what anybody said,
    or who."""

    id: str
    version: str = ""
    started_at: float = 0.0
    """Seconds of its wall clock."""
    chats: int = 0
    users: int = 0
    """Different ones in the last hour."""
    prompts: dict[str, int] = {}
    """Queue of a model → tokens of the longest prompt, as estimated."""
    tasks: int = 0
    """Open WebUI's, as their header or their form tells;"""
    tasks_without_header: int = 0
    tasks_without_user: int = 0
    """and of those, the ones without the header that names the task, and the person."""


async def publish_gateway(store: Store, keys: Keys, presence: GatewayPresence, ttl_s: float) -> None:
    """Says that a gateway lives, for ``ttl_s`` seconds. Raises ``StoreUnavailable``."""
    key, value = keys.gateway(presence.id), msgspec.json.encode(presence)
    await publish(store, keys.base, keys.gateways, key, presence.id, value=value, ttl_s=ttl_s)


async def read_gateways(store: Store, keys: Keys) -> list[GatewayPresence]:
    """All gateways that said lately that they live. Raises ``StoreUnavailable``."""
    return await read(store, keys, "gateway", GatewayPresence)


async def read_skews(lanes: Lanes, names: Sequence[str], *, workers: bool) -> dict[str, float]:
    """By how many seconds the clocks of these gateways, or workers, are before the store's. Each tells by its own when
    its word runs out, and the store by its own; of one that has run out nothing is known. Raises ``StoreUnavailable``.
    """
    keys = lanes.keys
    index, key_of = (keys.workers, keys.worker) if workers else (keys.gateways, keys.gateway)
    found = {}
    for name in names:
        now_us = (await lanes.peek([])).now_us
        left_ms, until_us = await lanes.store.exchange([("PTTL", key_of(name)), ("ZSCORE", index, name)])
        for result in (left_ms, until_us):
            if isinstance(result, Exception):
                raise result
        if left_ms > 0 and until_us is not None:
            found[name] = (float(until_us) - now_us) / 1e6 - left_ms / 1000
    return found

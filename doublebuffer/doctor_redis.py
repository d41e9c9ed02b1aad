"""Is Redis there, does it take what it is given, and does it keep it."""

from __future__ import annotations

from typing import Any

from buffer.lanes import Lanes
from buffer.setting_values import without_password
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.trouble import CAUGHT
from doublebuffer.doctor_report import Finding, fine, note, wrong

LEAST_REDIS = (6, 2)
TOPIC = "Redis"


async def redis_findings(settings: Settings, store: Store) -> list[Finding]:
    """Of a store that answers."""
    try:
        server, memory, persistence = [await store.info(part) for part in ("server", "memory", "persistence")]
        writes = await _writes(store)
    except (StoreUnavailable, *CAUGHT) as error:
        where = without_password(settings.redis_url or "")
        return [wrong(TOPIC, f"{where} answers, but not to INFO: {error}", "let this user run INFO")]
    return [
        _version(server),
        writes,
        *await _orders(store),
        _eviction(memory),
        *_room(memory, settings),
        *_persistence(persistence),
    ]


async def _writes(store: Store) -> Finding:
    try:
        await store.takes_writes(Lanes(store).keys.base)
    except (StoreUnavailable, *CAUGHT) as error:
        return wrong(TOPIC, str(error), "see docs/redis.md; until then every chat is refused")
    return fine(TOPIC, "takes writes")


async def _orders(store: Store) -> list[Finding]:
    """All works without them."""
    if store.embedded:
        return []
    channel = Lanes(store).keys.ctl("doctor")
    try:
        wire = await store.attend(channel)
        if wire is not None:
            wire.close()
            (seen,) = await store.exchange([("PUBSUB", "NUMSUB", channel)])
            if not isinstance(seen, Exception):
                return []
    except (StoreUnavailable, *CAUGHT):
        pass
    return [
        note(
            TOPIC,
            "does not let this user SUBSCRIBE to its channels, or ask PUBSUB for them, so the first token of a client "
            "that is alone comes a millisecond later",
            "give it `+subscribe +pubsub` and `&doublebuffer:*` (docs/redis.md)",
        )
    ]


def _version(server: dict[str, Any]) -> Finding:
    version = str(server.get("redis_version", "0"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < LEAST_REDIS:
        return wrong(TOPIC, f"version {version} is too old", "use Redis 6.2 or newer, or Valkey")
    return fine(TOPIC, f"reachable, version {version}")


def _eviction(memory: dict[str, Any]) -> Finding:
    policy = str(memory.get("maxmemory_policy", ""))
    if policy != "noeviction":
        return wrong(
            TOPIC,
            f"maxmemory-policy is {policy or 'unknown'}, so that waiting jobs may be thrown away",
            "run `CONFIG SET maxmemory-policy noeviction`, and set it in redis.conf",
        )
    return fine(TOPIC, "maxmemory-policy is noeviction")


def _room(memory: dict[str, Any], settings: Settings) -> list[Finding]:
    """Kept answers take theirs from the queue."""
    most = int(memory.get("maxmemory") or 0)
    keeps = settings.cache or any(record.cache for record in settings.models)
    if not keeps or not 0 < most < 2 * settings.cache_max_bytes:
        return []
    return [
        wrong(
            TOPIC,
            f"maxmemory is {most:,} bytes, of which kept answers may take {settings.cache_max_bytes:,}",
            "raise maxmemory, or lower DOUBLEBUFFER_CACHE_MAX_BYTES to less than half of it",
        )
    ]


def _persistence(persistence: dict[str, Any]) -> list[Finding]:
    if str(persistence.get("aof_enabled", "1")) != "0":
        return []
    return [
        note(
            TOPIC,
            "keeps no log of what it is given (appendonly is no), so a restart empties the queue; chats under way are "
            "put there again by their gateways, detached ones and batches are not",
            "run `CONFIG SET appendonly yes`, and set it in redis.conf, if that matters",
        )
    ]

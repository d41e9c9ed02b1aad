"""``doublebuffer doctor``: what stands in the way, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from buffer.backend import BackendSpec
from buffer.lanes import Lanes
from buffer.setting_sources import SettingsError
from buffer.setting_values import names, without_password
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.trouble import CAUGHT
from doublebuffer.discovery import PLACES, Place, discover
from doublebuffer.starting import Seen, connect, look

LEAST_REDIS = (6, 2)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``remedy`` is what to do; empty where all is well."""

    text: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"✗ {self.text}\n  → {self.remedy}" if self.remedy else f"✓ {self.text}"


async def run_doctor(read_settings: Callable[[], Settings], places: Sequence[Place] = PLACES) -> int:
    """Prints each finding as it is made; 0 if all is well, else 1."""
    healthy = True
    async for finding in _examine(read_settings, places):
        healthy = healthy and not finding.remedy
        print(finding, flush=True)
    return 0 if healthy else 1


async def _examine(read_settings: Callable[[], Settings], places: Sequence[Place]) -> AsyncIterator[Finding]:
    try:
        settings = read_settings()
    except SettingsError as error:
        yield Finding(f"settings: {error}", "correct that setting; docs/settings.md lists them all")
        return
    yield Finding("settings: all can be used")
    for finding in _keys(settings):
        yield finding
    for finding in await _redis(settings):
        yield finding
    specs: Sequence[BackendSpec] = settings.backends
    if not specs:
        specs = await discover(places)
        if not specs:
            yield Finding(
                "back ends: none is configured, and none was found at "
                f"{names([f'{place.url} ({place.title})' for place in places])}",
                "start an engine or set DOUBLEBUFFER_BACKENDS; until then `doublebuffer up` only simulates one",
            )
            return
        yield Finding(f"back ends: none is configured; found {names([spec.name for spec in specs])}")
    for seen in await look(settings, specs):
        for finding in _back_end(seen):
            yield finding


def _keys(settings: Settings) -> list[Finding]:
    """It is none of our business how a key looks: a hint, and nothing that is wrong."""
    return [
        Finding(
            f"key {key.name!r}: taken as the key itself; if its 64 hexadecimal digits are the hash of one, they need "
            '"sha256:" before them'
        )
        for key in settings.api_keys
        if key.bare_hash
    ]


async def _redis(settings: Settings) -> list[Finding]:
    if settings.redis_url is None:
        return [Finding("Redis: REDIS_URL is unset; `doublebuffer up` keeps its queue in memory and needs none")]
    where = without_password(settings.redis_url)
    try:
        store = await connect(settings)
    except SettingsError as error:
        return [Finding(f"Redis: {error}", "start a Redis or Valkey there, or correct REDIS_URL")]
    try:
        server, memory = await store.info("server"), await store.info("memory")
        writes = await _writes(store)
    except (StoreUnavailable, *CAUGHT) as error:
        return [Finding(f"Redis: {where} answers, but not to INFO: {error}", "let this user run INFO")]
    finally:
        await store.aclose()
    version, policy = str(server.get("redis_version", "0")), str(memory.get("maxmemory_policy", ""))
    return [_version(version), writes, _eviction(policy)]


async def _writes(store: Store) -> Finding:
    try:
        await store.takes_writes(Lanes(store).keys.base)
    except (StoreUnavailable, *CAUGHT) as error:
        return Finding(f"Redis: {error}", "see docs/redis.md; until then every chat is refused")
    return Finding("Redis: takes writes")


def _version(version: str) -> Finding:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < LEAST_REDIS:
        return Finding(f"Redis: version {version} is too old", "use Redis 6.2 or newer, or Valkey")
    return Finding(f"Redis: reachable, version {version}")


def _eviction(policy: str) -> Finding:
    if policy != "noeviction":
        return Finding(
            f"Redis: maxmemory-policy is {policy or 'unknown'}, so that waiting jobs may be thrown away",
            "run `CONFIG SET maxmemory-policy noeviction`, and set it in redis.conf",
        )
    return Finding("Redis: maxmemory-policy is noeviction")


def _back_end(seen: Seen) -> list[Finding]:
    spec = seen.spec
    title = f"back end {spec.name} ({spec.kind}) at {without_password(spec.url)}"
    if seen.probe is None:
        inside = os.path.exists("/.dockerenv") and "127.0.0.1" in spec.url
        hint = "; inside a container, 127.0.0.1 is the container itself" if inside else ""
        return [Finding(f"{title}: {seen.trouble}", f"start it there, or correct its url, kind or api_key{hint}")]
    if seen.probe.doublebuffer:
        return [Finding(f"{title}: is Doublebuffer itself", "give the address of an engine")]
    models = seen.models()
    if not models:
        remedy = "ollama pull a model" if spec.kind == "ollama" else "start it with a model"
        return [Finding(f"{title}: answers, but has no model", remedy)]
    slots = f", {seen.probe.slots} slots" if seen.probe.slots else ""
    simulated = ", SIMULATED" if seen.probe.simulated else ""
    findings = [Finding(f"{title}: answers with {names(models)}{slots}{simulated}")]
    upstream = {model.id for model in seen.probe.models}
    findings.extend(
        Finding(
            f"{title}: {client!r} stands for {wanted!r}, which it does not have",
            f"correct models of back end {spec.name} in DOUBLEBUFFER_BACKENDS",
        )
        for client, wanted in spec.models.items()
        if wanted not in upstream
    )
    return findings

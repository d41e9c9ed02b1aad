"""What has to hold before a command can start, each with the sentence for a person if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from backends.base import BackendError, Probe
from backends.make import make
from buffer.backend import BackendSpec
from buffer.setting_sources import SettingsError
from buffer.setting_values import without_password
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable, open_store

CONNECT_S = 10.0


def needs_redis(settings: Settings, command: str) -> None:
    """Raises ``SettingsError`` if no Redis is configured."""
    if settings.redis_url is None:
        raise SettingsError(
            f"REDIS_URL is unset, and `doublebuffer {command}` meets the other processes in Redis; "
            "set it, or run `doublebuffer up`, which needs none."
        )


async def connect(settings: Settings) -> Store:
    """The store, seen to answer. Raises ``SettingsError``."""
    try:
        async with asyncio.timeout(CONNECT_S):
            store = await open_store(settings.redis_url, prefix=settings.key_prefix)
            try:
                await store.ping()
            except BaseException:
                await store.aclose()
                raise
    except (StoreUnavailable, TimeoutError, ValueError) as error:
        where = without_password(settings.redis_url or "")
        reason = str(error) or "no answer in time"
        raise SettingsError(f"REDIS_URL: {where} cannot be used: {reason.rstrip('.')}.") from None
    return store


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a back end: what it tells, or why it tells nothing."""

    spec: BackendSpec
    probe: Probe | None
    trouble: str = ""

    def models(self) -> list[str]:
        """Names that clients can use."""
        listed = [model.id for model in self.probe.models] if self.probe else []
        return [*listed, *(name for name in self.spec.models if name not in listed)]


async def look(settings: Settings, specs: Sequence[BackendSpec]) -> list[Seen]:
    """Looks at all of them at once; a back end that is away is no error here."""
    async with asyncio.TaskGroup() as group:
        looks = [group.create_task(_look(settings, spec)) for spec in specs]
    return [look.result() for look in looks]


async def _look(settings: Settings, spec: BackendSpec) -> Seen:
    backend = make(
        spec,
        connect_timeout_s=settings.connect_timeout_seconds,
        first_token_timeout_s=settings.first_token_timeout_seconds,
        stall_timeout_s=settings.stall_timeout_seconds,
    )
    try:
        return Seen(spec, await backend.probe())
    except BackendError as error:
        return Seen(spec, None, error.message)
    finally:
        await backend.aclose()


def refuse_ourselves(seen: Sequence[Seen]) -> None:
    """A back end that is Doublebuffer would send each request round in a circle. Raises ``SettingsError``."""
    for one in seen:
        if one.probe and one.probe.doublebuffer:
            raise SettingsError(
                f"DOUBLEBUFFER_BACKENDS: back end {one.spec.name!r} at {one.spec.url} is Doublebuffer itself; "
                "give the address of an engine."
            )

"""What has to hold before a command can start, each with the sentence for a person if it does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from backends.base import BackendError, Probe
from backends.make import make
from buffer.backend import BackendSpec
from buffer.lanes import Lanes
from buffer.setting_sources import SettingsError
from buffer.setting_values import without_password
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable, open_store
from buffer.trouble import CAUGHT, NO_COMMAND, NOT_ALLOWED

log = logging.getLogger("doublebuffer.command")

SOON_S = 30.0
"""How long a Redis is waited for that is there and not ready: it loads its data, or its Sentinels choose a master."""
LOOK_AGAIN_S = 0.2


def needs_redis(settings: Settings, command: str) -> None:
    """Raises ``SettingsError`` if no Redis is configured."""
    if settings.redis_url is None:
        raise SettingsError(
            f"REDIS_URL is unset, and `doublebuffer {command}` meets the other processes in Redis; "
            "set it, or run `doublebuffer up`, which needs none."
        )


async def connect(settings: Settings) -> Store:
    """The store, seen to answer; one that is there and only gets ready is waited for. Raises ``SettingsError``."""
    try:
        store = await open_store(settings.redis_url, prefix=settings.key_prefix)
        try:
            await _answers(store)
        except BaseException:
            await store.aclose()
            raise
    except (StoreUnavailable, ValueError, *CAUGHT) as error:
        raise _no_use(settings, error) from None
    return store


@asynccontextmanager
async def store_of(settings: Settings) -> AsyncIterator[Store]:
    """For a command that does one thing with it. Raises ``SettingsError`` where it cannot be done."""
    store = await connect(settings)
    try:
        yield store
    except StoreUnavailable as error:
        raise SettingsError(f"REDIS_URL: {str(error).rstrip('.')}; try again once it answers.") from None
    except CAUGHT as error:
        raise _no_use(settings, error) from None
    finally:
        await store.aclose()


def _no_use(settings: Settings, error: Exception) -> SettingsError:
    where = without_password(settings.redis_url or "")
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return SettingsError(f"REDIS_URL: {where} cannot be used: {reason}.")


async def _answers(store: Store) -> None:
    """Raises ``StoreUnavailable``."""
    loop = asyncio.get_running_loop()
    until: float | None = None
    while True:
        try:
            await store.ping()
            await _lets_us(store)
            return
        except StoreUnavailable as error:
            if not error.soon or (until is not None and loop.time() > until):
                raise
            if until is None:
                until = loop.time() + SOON_S
                log.warning("%s It is waited for, %g s at most.", error, SOON_S)
        await asyncio.sleep(LOOK_AGAIN_S)


async def _lets_us(store: Store) -> None:
    """One that takes no writes at the moment will do so again; one that does not let this user has to be told first.

    Raises ``StoreUnavailable``.
    """
    lanes = Lanes(store)
    try:
        await store.takes_writes(lanes.keys.base)
        await lanes.peek([])
    except StoreUnavailable as error:
        if str(error) in (NOT_ALLOWED.text, NO_COMMAND.text):
            raise


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

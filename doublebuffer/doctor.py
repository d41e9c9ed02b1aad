"""``doublebuffer doctor``: what stands in the way, and what to do about it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from buffer.backend import BackendSpec
from buffer.setting_sources import SettingsError
from buffer.setting_values import names
from buffer.settings import Settings
from buffer.store import StoreUnavailable
from buffer.trouble import CAUGHT
from doublebuffer.discovery import PLACES, Place, discover
from doublebuffer.doctor_engines import address_findings, engine_findings, window_findings
from doublebuffer.doctor_house import House, house_findings, pools_of, read_house
from doublebuffer.doctor_offline import offline_findings
from doublebuffer.doctor_redis import TOPIC, redis_findings
from doublebuffer.doctor_report import Finding, Report, fine, note, wrong
from doublebuffer.doctor_simulated import no_engine
from doublebuffer.starting import connect, look


async def run_doctor(
    read_settings: Callable[[], Settings], places: Sequence[Place] = PLACES, *, as_json: bool = False
) -> int:
    """Prints each finding as it is made, or all as JSON; 0 if nothing is wrong, else 1."""
    findings = []
    async for finding in _examine(read_settings, places):
        findings.append(finding)
        if not as_json:
            print(finding, flush=True)
    healthy = all(finding.level != "wrong" for finding in findings)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(Report(healthy, findings)), indent=2).decode())
    return 0 if healthy else 1


async def _examine(read_settings: Callable[[], Settings], places: Sequence[Place]) -> AsyncIterator[Finding]:
    try:
        settings = read_settings()
    except SettingsError as error:
        yield wrong("settings", str(error), "correct that setting; docs/settings.md lists them all")
        return
    yield fine("settings", "all can be used")
    for finding in _keys(settings):
        yield finding
    found, house = await _redis(settings)
    for finding in found:
        yield finding
    specs: Sequence[BackendSpec] = settings.backends
    if not specs:
        specs = await discover(places)
        if not specs:
            looked = (
                f"none is configured, and none was found at {names([f'{one.url} ({one.title})' for one in places])}"
            )
            yield await no_engine(looked, settings, house.states.values())
            return
        yield fine("back ends", f"none is configured; found {names([spec.name for spec in specs])}")
    for finding in address_findings(specs):
        yield finding
    for seen in await look(settings, specs):
        for finding in [*await engine_findings(seen), *window_findings(seen, house.prompts(seen.models()))]:
            yield finding


def _keys(settings: Settings) -> list[Finding]:
    """It is none of our business how a key looks: a hint, and nothing that is wrong."""
    return [
        note(
            f"key {key.name!r}",
            "its 64 hexadecimal digits are taken as the key itself",
            'write "sha256:" before them, if they are the hash of one',
        )
        for key in settings.api_keys
        if key.bare_hash
    ]


async def _redis(settings: Settings) -> tuple[list[Finding], House]:
    if settings.redis_url is None:
        text = "REDIS_URL is unset; `doublebuffer up` needs none, and what runs there cannot be looked at from here"
        return [fine(TOPIC, text)], House()
    try:
        store = await connect(settings)
    except SettingsError as error:
        return [wrong(TOPIC, str(error), "start a Redis or Valkey there, or correct REDIS_URL")], House()
    try:
        findings = await redis_findings(settings, store)
        try:
            house = await read_house(store, pools_of([spec.pool for spec in settings.backends]))
            findings += await offline_findings(settings, store)
        except (StoreUnavailable, *CAUGHT):
            return findings, House()
        return [*findings, *house_findings(house)], house
    finally:
        await store.aclose()

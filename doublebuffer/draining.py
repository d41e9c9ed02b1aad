"""``doublebuffer worker``: one worker alone."""

from __future__ import annotations

from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from doublebuffer import VERSION
from doublebuffer.counting import telling_of
from doublebuffer.metrics import metrics_served
from doublebuffer.signals import stop_on_signals
from doublebuffer.starting import connect, look, needs_redis, refuse_ourselves
from doublebuffer.telling import back_end_lines, store_line
from worker.runner import Worker


async def run_worker(settings: Settings) -> None:
    """Works until a signal. Raises ``SettingsError``."""
    needs_redis(settings, "worker")
    if not settings.backends:
        raise SettingsError("DOUBLEBUFFER_BACKENDS is unset, and a worker has to be told which engines to work with.")
    with stop_on_signals() as stop:
        store = await connect(settings)
        try:
            seen = await look(settings, settings.backends)
            refuse_ourselves(seen)
            lines = [f"Doublebuffer {VERSION} worker", f"  store      {store_line(settings)}", *back_end_lines(seen)]
            async with (
                telling_of("doublebuffer-worker", engines_near=True) as telemetry,
                metrics_served(settings, telemetry) as address,
            ):
                if address:
                    lines.append(f"  metrics    {address}")
                print("\n".join(lines), flush=True)
                await Worker(settings, store, telemetry=telemetry).run(stop)
        finally:
            await store.aclose()

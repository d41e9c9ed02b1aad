"""A simulated engine over a real uvicorn, on a free port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from simulate.server import serve


@asynccontextmanager
async def served(profile_name: str = "rtx4090-vllm", **settings: Any) -> AsyncIterator[str]:
    """The server's base URL. Modelled time runs as fast as the machine goes, unless ``time_scale`` says otherwise."""
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings.setdefault("time_scale", 0.0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            serve(
                "127.0.0.1",
                0,
                profile_name=profile_name,
                stop=stop,
                ready=lambda _, port: listening.set_result(port),
                **settings,
            )
        )
        try:
            yield f"http://127.0.0.1:{await listening}"
        finally:
            stop.set()


async def load_of(client: httpx.AsyncClient) -> dict[str, float]:
    """The gauges and counters of ``/metrics``, without their prefix and labels."""
    lines = (await client.get("/metrics")).text.splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.split("{")[0].removeprefix("vllm:"): float(value) for name, value in samples}


async def settled(client: httpx.AsyncClient, **wanted: float) -> dict[str, float]:
    """The load, as soon as it is as wanted. Fails after 5 s."""
    async with asyncio.timeout(5):
        while True:
            load = await load_of(client)
            if all(load[name] == value for name, value in wanted.items()):
                return load

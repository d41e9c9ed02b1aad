"""``python -m tests.openwebui``: the same installation, left running to be looked at with a browser of one's own."""

from __future__ import annotations

import asyncio
import contextlib
import signal

from tests.openwebui.installation import run_installation


async def main() -> None:
    """Until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with run_installation() as installation:
        print(f"Open WebUI   {installation.front.url} (whoever signs up first is its administrator)", flush=True)
        print(f"Doublebuffer {installation.site.url}", flush=True)
        print(f"llama.cpp    {installation.llama.url}", flush=True)
        print(f"simulated    {installation.simulator.url}", flush=True)
        await stop.wait()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())

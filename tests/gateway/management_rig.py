"""Gateway and worker in front of back ends whose models come and go."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from buffer.backend import BackendSpec
from buffer.lanes import Lanes
from buffer.load import read_states
from buffer.settings import Settings
from buffer.store import Store, open_store
from gateway.app import create_app
from gateway.delivery import Timing
from tests.gateway.rig import served, until
from tests.rig.scripted import Scripted
from tests.rig.shelf import Shelf
from worker.runner import Worker


class Keepers:
    def __init__(self, port: int, store: Store, engines: Mapping[str, Scripted]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.engines = engines
        self._lanes = Lanes(store)

    def shelf(self, name: str) -> Shelf:
        return self.engines[name].shelf

    async def seen(self, name: str, model: str | None) -> None:
        """Waits until a worker has told that a back end has a model; None: that it is down."""

        async def told() -> bool:
            await self._lanes.look(["worker"], name)
            states = {state.name: state for state in await read_states(self._lanes.store, self._lanes.keys)}
            if (state := states.get(name)) is None:
                return False
            return not state.up if model is None else model in {info.id for info in state.models}

        await until(told)
        await asyncio.sleep(1.05)  # the gateway may go by what it knew a second ago

    def _uploads(self, name: str) -> int:
        return sum(bool(one.buffer) for one in self.engines[name].connections)

    async def connected(self, name: str) -> None:
        """Waits until a back end has the beginning of a request."""

        async def begun() -> bool:
            return self._uploads(name) > 0

        await until(begun)

    async def left(self, name: str) -> None:
        """Waits until nobody sends the rest of one."""

        async def over() -> bool:
            return self._uploads(name) == 0

        await until(over)


@asynccontextmanager
async def keepers(
    *ollamas: str,
    vllm: str = "",
    urls: Mapping[str, str] | None = None,
    aliases: dict[str, str] | None = None,
    num_ctx: int | None = None,
    timing: Timing | None = None,
    **settings: Any,
) -> AsyncIterator[Keepers]:
    """``ollamas``: names of scripted ones with a model each; ``vllm``: the model of one; ``urls``: other Ollamas."""
    async with AsyncExitStack() as stack:
        engines = {name: await stack.enter_async_context(Scripted("ollama", models=["qwen3:0.6b"])) for name in ollamas}
        specs = [
            BackendSpec(name=name, kind="ollama", url=engine.url, models=aliases or {}, num_ctx=num_ctx)
            for name, engine in engines.items()
        ]
        specs += [BackendSpec(name=name, kind="ollama", url=url) for name, url in (urls or {}).items()]
        if vllm:
            engine = await stack.enter_async_context(Scripted("openai", kind="vllm", models=[vllm]))
            specs.append(BackendSpec(name="vllm", kind="vllm", url=engine.url))
        store = await open_store(None, prefix=f"t-{secrets.token_hex(6)}")
        stack.push_async_callback(store.aclose)
        made = Settings(backends=specs, **settings)
        stop = asyncio.Event()
        group = await stack.enter_async_context(asyncio.TaskGroup())
        group.create_task(Worker(made, store, name="worker").run(stop))
        stack.callback(stop.set)
        port = await stack.enter_async_context(served(create_app(made, store, timing=timing)))
        yield Keepers(port, store, engines)

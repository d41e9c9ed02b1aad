"""What of a gateway the lines of offline batches need, in a process that serves no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from buffer.model_records import Families
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.telemetry import Telemetry
from gateway.catalog import Catalog
from gateway.delivery import Timing
from gateway.embedding import Embeddings
from gateway.intake import Intake
from gateway.pools import open_embedding_pools, open_pools
from gateway.relay import Relay
from gateway.services import Parts


@asynccontextmanager
async def apart(settings: Settings, store: Store, telemetry: Telemetry, pools: list[str]) -> AsyncIterator[Parts]:
    """Reads answers from the store as long as it is entered. ``pools``: names of those of back ends."""
    timing = Timing()
    chats, embeddings = open_pools(store, pools, settings), open_embedding_pools(store, pools, settings)
    intake = Intake(settings, telemetry)
    catalog = Catalog(store, chats, cold_s=timing.cold_s, families=Families(settings.models))
    parts = Parts(
        settings=settings,
        store=store,
        telemetry=telemetry,
        pools=chats,
        embedding_pools=embeddings,
        catalog=catalog,
        intake=intake,
        relay=Relay(settings, catalog, intake, telemetry, timing),
        embeddings=Embeddings(settings, catalog, telemetry),
    )
    inboxes = [pool.inbox for pool in (*chats.values(), *embeddings.values())]
    for inbox in inboxes:
        with suppress(StoreUnavailable):  # then it is made once the store answers
            await inbox.create()
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(inbox.run()) for inbox in inboxes]
        running += [
            group.create_task(parts.embeddings.tidy()),
            group.create_task(catalog.run()),
            group.create_task(telemetry.recent.run(store)),
        ]
        try:
            yield parts
        finally:
            await asyncio.gather(*(inbox.close() for inbox in inboxes))
            for task in running:
                task.cancel()

"""Is it alive, can it answer, and what does it count."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response

from buffer.gauge_metrics import Gauges
from buffer.gauges import read_gauges
from buffer.load import alive_workers
from buffer.store import StoreUnavailable
from buffer.telemetry import CONTENT_TYPE
from gateway.services import Services

_PATIENCE_S = 2.0
"""A probe that waits longer for the store has its answer."""


def health_routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["Health"])

    @router.head("/health", include_in_schema=False)
    @router.get("/health", summary="The process lives")
    async def health(response: Response) -> dict[str, str]:
        if not services.ended.is_set():
            return {"status": "ok"}
        response.status_code = 503
        return {"status": "broken", "reason": "The gateway has stopped reading answers; it has to be started anew."}

    @router.head("/health/ready", include_in_schema=False)
    @router.get("/health/ready", summary="Redis takes new requests and a worker is alive")
    async def ready(response: Response) -> dict[str, str]:
        reason = await _not_ready(services)
        if reason is None:
            return {"status": "ok"}
        response.status_code = 503
        response.headers["Retry-After"] = "1"
        return {"status": "unavailable", "reason": reason}

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        gauges: Gauges | None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                gauges = await read_gauges(
                    (pool.lanes for pool in services.pools.values()),
                    (pool.lanes for pool in services.embedding_pools.values()),
                )
        except (StoreUnavailable, TimeoutError):
            gauges = None
        text = await asyncio.to_thread(services.telemetry.exposition, gauges)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    return router


async def _not_ready(services: Services) -> str | None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for pool in services.pools.values():
                await services.store.takes_writes(pool.lanes.keys.base)
            for pool in services.pools.values():
                if await alive_workers(services.store, pool.lanes.keys):
                    return None
    except StoreUnavailable as error:
        return str(error)
    except TimeoutError:
        return "Redis does not answer in time."
    return "No worker is running."

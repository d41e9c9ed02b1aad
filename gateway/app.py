"""The gateway's application: everything is built here, once, and passed on by argument."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from buffer.cache import Shelf
from buffer.carrying import NO_CLUSTER, carries
from buffer.files import Files
from buffer.job import Failure
from buffer.listening import Listening
from buffer.model_records import Families
from buffer.offline import Offline
from buffer.settings import Settings
from buffer.store import Store, StoreUnavailable
from buffer.telemetry import Api, Telemetry
from gateway.answers import Answers
from gateway.call import AsgiApp
from gateway.catalog import Catalog
from gateway.delivery import Timing
from gateway.door import Door
from gateway.embedding import Embeddings
from gateway.flights import Flights
from gateway.forms import COMPLETIONS, GENERATE, OLLAMA, OPENAI, RESPONSES
from gateway.intake import Intake
from gateway.joining import Joining
from gateway.management import Management
from gateway.middleware import Front, install_log_filter
from gateway.offline.runner import Runner
from gateway.pools import Pool, open_embedding_pools, open_pools
from gateway.relay import Relay
from gateway.routes.account import account_routes
from gateway.routes.anthropic import MessagesRoute, count_routes
from gateway.routes.cache import cache_routes
from gateway.routes.chat import ChatRoute, chat_routes
from gateway.routes.dashboard import dashboard_routes
from gateway.routes.docs import docs_routes
from gateway.routes.embeddings import OLLAMA_EMBED, OLLAMA_EMBEDDINGS, OPENAI_EMBEDDINGS, EmbedRoute
from gateway.routes.errors import install_errors
from gateway.routes.health import health_routes
from gateway.routes.management import management_routes
from gateway.routes.models import model_routes
from gateway.routes.offline import batch_routes, file_routes
from gateway.routes.requests import request_routes
from gateway.services import Services
from gateway.sharing import Sharing
from gateway.traced import Traced

_log = logging.getLogger("doublebuffer.gateway")
_HOLD_S = 5.0
"""How long a job whose worker died waits for its gateway's word."""


def create_app(
    settings: Settings,
    store: Store,
    *,
    telemetry: Telemetry | None = None,
    timing: Timing | None = None,
    runs_batches: bool = False,
) -> Front:
    """The ASGI application on a store that is open, and stays its opener's to close.

    ``telemetry``: shared with a worker in the same process. ``runs_batches``: offline ones that no batch worker does
    run in it. Its lifespan has to be run: it is what reads the answers.
    """
    install_log_filter()
    telemetry = telemetry or Telemetry()
    timing = timing or Timing()
    names = sorted({spec.pool for spec in settings.backends}) or ["default"]
    pools, embedding_pools = open_pools(store, names, settings), open_embedding_pools(store, names, settings)
    all_pools = [*pools.values(), *embedding_pools.values()]
    intake = Intake(settings, telemetry)
    catalog = Catalog(
        store,
        pools,
        expected={spec.name for spec in settings.backends},
        cold_s=timing.cold_s,
        families=Families(settings.models),
    )
    files = Files(store, settings.files)
    listening = Listening()
    relay = Relay(settings, catalog, intake, telemetry, timing)
    sharing = Sharing(store, listening)
    shelf = Shelf(store, settings.cache_ttl_seconds, settings.cache_max_bytes) if Answers.wanted(settings) else None
    services = Services(
        settings=settings,
        store=store,
        telemetry=telemetry,
        pools=pools,
        embedding_pools=embedding_pools,
        catalog=catalog,
        intake=intake,
        relay=relay,
        listening=listening,
        joining=Joining(store, pools, sharing, relay),
        answers=Answers(settings, Flights(shelf, pools, sharing, relay), telemetry) if shelf else None,
        embeddings=Embeddings(settings, catalog, telemetry),
        management=Management(settings, catalog, pools, shelf),
        files=files,
        offline=Offline(store, files),
        ended=asyncio.Event(),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as group:
                for pool in all_pools:
                    await _create_inbox(pool)
                running = [group.create_task(pool.inbox.run()) for pool in all_pools]
                running += [group.create_task(_reap(pool, telemetry, settings.lease_seconds)) for pool in all_pools]
                running += [group.create_task(listening.run()), group.create_task(relay.outliving.run())]
                running += [group.create_task(services.embeddings.tidy()), group.create_task(catalog.run())]
                running.append(group.create_task(intake.noting.run(pool.lanes for pool in pools.values())))
                running += [
                    group.create_task(services.management.run()),
                    group.create_task(files.keep_swept()),
                    group.create_task(telemetry.recent.run(store)),
                ]
                if runs_batches and carries(settings.redis_url):
                    runner = Runner(services, services.offline, files, lease_s=settings.lease_seconds)
                    running.append(group.create_task(runner.run()))
                yield
                for task in running:
                    task.cancel()
        finally:
            services.ended.set()
            await services.management.aclose()

    app = FastAPI(
        title="Doublebuffer",
        summary="Ollama's and OpenAI's API in front of your own engines, with a queue between.",
        version=version("doublebuffer"),
        lifespan=lifespan,
        redirect_slashes=False,
        # FastAPI's own pages load scripts from other hosts.
        docs_url=None,
        redoc_url=None,
    )
    hot: dict[str, tuple[Api, AsgiApp]] = {
        "/v1/chat/completions": ("openai", ChatRoute(OPENAI, services)),
        "/v1/completions": ("openai", ChatRoute(COMPLETIONS, services)),
        "/api/chat": ("ollama", ChatRoute(OLLAMA, services)),
        "/api/generate": ("ollama", ChatRoute(GENERATE, services)),
        "/v1/responses": ("responses", ChatRoute(RESPONSES, services)),
        "/v1/messages": ("anthropic", MessagesRoute(services)),
        "/v1/embeddings": ("openai", EmbedRoute(OPENAI_EMBEDDINGS, services)),
        "/api/embed": ("ollama", EmbedRoute(OLLAMA_EMBED, services)),
        "/api/embeddings": ("ollama", EmbedRoute(OLLAMA_EMBEDDINGS, services)),
    }

    if telemetry.spans is not None:
        hot = {path: (api, Traced(route, telemetry.spans, path)) for path, (api, route) in hot.items()}

    async def end_answers() -> None:
        listening.stop()
        await asyncio.gather(*(pool.inbox.close() for pool in all_pools))

    app.include_router(chat_routes(hot))
    app.include_router(count_routes(services))
    app.include_router(model_routes(services))
    app.include_router(request_routes(services, heartbeat_s=timing.heartbeat_s))
    app.include_router(file_routes(services))
    no_batches = None if carries(settings.redis_url) else Failure(NO_CLUSTER, 400, "unsupported")
    app.include_router(batch_routes(services, _begun, no_batches))
    app.include_router(account_routes())
    app.include_router(cache_routes(services))
    app.include_router(management_routes(services, heartbeat_s=timing.heartbeat_s))
    app.include_router(health_routes(services))
    app.include_router(dashboard_routes(services))
    app.include_router(docs_routes(app))
    install_errors(app)
    return Front(
        app,
        hot,
        door=Door(settings, store),
        telemetry=telemetry,
        end_answers=end_answers,
    )


async def _begun(_: str) -> None:
    """Whoever runs offline batches looks for new ones by himself."""


async def _create_inbox(pool: Pool) -> None:
    try:
        await pool.inbox.create()
    except StoreUnavailable:
        _log.warning("the store does not answer yet; chats are refused until it does")


async def _reap(pool: Pool, telemetry: Telemetry, lease_s: float) -> None:
    """Takes over the jobs of dead workers, so that this works as long as anybody at all is alive."""
    while True:
        await asyncio.sleep(lease_s / 4)
        try:
            reaped = await pool.lanes.reap(lease_s, _HOLD_S)
        except StoreUnavailable:
            continue
        if reaped.taken_over or reaped.dead:
            _log.warning("took over %d jobs of silent workers, gave up %d", reaped.taken_over, reaped.dead)
            telemetry.taken_over.inc(reaped.taken_over)
            telemetry.dead_letters.inc(reaped.dead)

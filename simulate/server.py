"""The simulated engine as a server: both APIs on one port, whatever the profile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Generator, Sequence

import uvicorn

from simulate import chat_ollama, chat_openai, completions, embeddings, listing, tokenize
from simulate.bodies import NameBody, decode
from simulate.cost import profile_named
from simulate.driver import Driver, GoneError
from simulate.orders import make_engine
from simulate.site import DEFAULT_MODEL, VERSION, Site, check_models
from simulate.wire import Exchange, HttpError, Receive, Scope, Send

DEFAULT_PROFILE = "rtx4090-vllm"
_log = logging.getLogger("doublebuffer.simulate")

App = Callable[[Scope, Receive, Send], Awaitable[None]]


def create_app(
    profile_name: str = DEFAULT_PROFILE,
    *,
    models: Sequence[str] = (DEFAULT_MODEL,),
    time_scale: float = 1.0,
    slots: int | None = None,
    num_ctx: int | None = None,
    ignore_eos: bool = False,
) -> App:
    """An ASGI app; its lifespan must be run, since that is what drives the engine.

    ``models``: names that begin with ``simulated-``; the first is in memory from the start. ``time_scale``: wall
    seconds for a modelled second, 0 for as fast as the machine goes. ``ignore_eos``: answers go on to their limit, as
    if each request said so. Raises ``ValueError`` on a bad argument.
    """
    check_models(models)
    profile = profile_named(profile_name, slots=slots, num_ctx=num_ctx)
    driver = Driver(make_engine(profile, loaded=models[0]), time_scale=time_scale)
    site = Site(profile, tuple(models), driver, ignore_eos)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(site, receive, send)
        elif scope["type"] == "http":
            await _serve_request(site, Exchange(scope, receive, send))
        else:
            await send({"type": "websocket.close", "code": 1000})

    return app


async def _lifespan(site: Site, receive: Receive, send: Send) -> None:
    await receive()
    async with asyncio.TaskGroup() as tasks:
        engine = tasks.create_task(site.driver.run())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        engine.cancel()
    await send({"type": "lifespan.shutdown.complete"})


async def _show(site: Site, exchange: Exchange) -> None:
    body = decode(await exchange.body(), NameBody, "ollama")
    name = body.model or body.name
    if not name:
        raise HttpError(400, "model is required")
    model = site.find(name)
    if model is None:
        raise HttpError(404, f"model '{name}' not found")
    await exchange.json(listing.ollama_show(site, model))


_LISTS: dict[str, Callable[[Site], object]] = {
    "/v1/models": listing.openai_models,
    "/api/tags": listing.ollama_tags,
    "/api/ps": listing.ollama_ps,
    "/api/version": lambda site: {"version": VERSION},
    "/version": lambda site: {"version": VERSION},
    "/props": listing.llamacpp_props,
    "/": lambda site: b"Ollama is running",
    "/health": lambda site: b"",
    "/metrics": listing.vllm_metrics,
}
_ANSWERS: dict[str, Callable[[Site, Exchange], Awaitable[None]]] = {
    "/v1/chat/completions": chat_openai.chat,
    "/v1/completions": completions.completion,
    "/tokenize": tokenize.tokenize,
    "/api/chat": chat_ollama.chat,
    "/api/generate": chat_ollama.generate,
    "/v1/embeddings": embeddings.openai,
    "/api/embed": embeddings.ollama,
    "/api/embeddings": embeddings.ollama_older,
    "/api/show": _show,
}


async def _serve_request(site: Site, exchange: Exchange) -> None:
    try:
        tell, answer = _LISTS.get(exchange.path), _ANSWERS.get(exchange.path)
        if tell is not None and exchange.method in ("GET", "HEAD"):
            value = tell(site)
            await (exchange.whole(value) if isinstance(value, bytes) else exchange.json(value))
        elif answer is not None and exchange.method == "POST":
            await answer(site, exchange)
        elif tell is not None or answer is not None:
            raise HttpError(405, "405 method not allowed")
        else:
            raise HttpError(404, "404 page not found")
    except HttpError as error:
        await _refuse(exchange, error)
    except GoneError:
        _log.debug("a client left before its request was whole")


async def _refuse(exchange: Exchange, error: HttpError) -> None:
    if error.status in (404, 405) and exchange.path not in _ANSWERS and exchange.path.startswith("/v1/"):
        await exchange.json({"detail": error.message}, error.status)
    elif exchange.path.startswith("/v1/"):
        fault = {"message": error.message, "type": error.kind, "param": error.param, "code": error.status}
        await exchange.json({"error": fault}, error.status)
    elif error.status in (404, 405) and exchange.path not in _ANSWERS:
        await exchange.whole(error.message.encode(), error.status)
    else:
        await exchange.json({"error": error.message}, error.status)


class _Server(uvicorn.Server):
    """A server that leaves signals to the program around it, and tells when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str, int], None] | None) -> None:
        super().__init__(config)
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and self.started and sockets:
            self._ready(*sockets[0].getsockname()[:2])


async def serve(
    host: str,
    port: int,
    *,
    profile_name: str = DEFAULT_PROFILE,
    models: Sequence[str] = (DEFAULT_MODEL,),
    time_scale: float = 1.0,
    slots: int | None = None,
    num_ctx: int | None = None,
    ignore_eos: bool = False,
    stop: asyncio.Event | None = None,
    ready: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until ``stop`` is set or the caller is cancelled; without ``stop``, until SIGINT or SIGTERM too.

    ``ready`` is called with the address and the port once it listens (port 0 takes a free one). Answers that are under
    way at the end have two seconds. Raises ``ValueError`` on a bad argument, ``OSError`` if the address cannot be had.
    """
    app = create_app(
        profile_name, models=models, time_scale=time_scale, slots=slots, num_ctx=num_ctx, ignore_eos=ignore_eos
    )
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=2)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1024) as listener, _stop_event(stop) as stopping:
        server = _Server(config, ready)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        waiting = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            server.should_exit = True
            await serving


@contextlib.contextmanager
def _stop_event(stop: asyncio.Event | None) -> Generator[asyncio.Event, None, None]:
    """The caller's event, or one that the signals to end set."""
    if stop is not None:
        yield stop
        return
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with contextlib.ExitStack() as handlers:
        with contextlib.suppress(NotImplementedError):
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
                handlers.callback(loop.remove_signal_handler, number)
        yield stop

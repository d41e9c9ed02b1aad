"""What stands between load and engine: nothing, each of the peers, and Doublebuffer in its several forms."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path as File

from bench.cost.engine import MODEL
from bench.cost.load import Ask, Heard, put
from bench.cost.peers import rq_put
from bench.cost.processes import Site, cpu_s
from bench.processes import BenchError, free_port, redis_binary

PEERS = File(__file__).resolve().parent.parent / "peers"
START_S = 120.0
MOST_IN_FLIGHT = 1024


@dataclass(frozen=True, slots=True)
class Path:
    name: str
    roots: tuple[int, ...]
    """Its processes."""
    put: Callable[[Ask], Awaitable[Heard]]
    port: int = 0
    gateways: tuple[int, ...] = ()
    """Of its processes, those that hold the clients' connections."""
    store: int = 0
    """Port of its Redis."""

    def cpu_s(self) -> float:
        return cpu_s(self.roots)


def _over_http(name: str, port: int, roots: tuple[int, ...], **more: object) -> Path:
    async def load(ask: Ask) -> Heard:
        return await put(port, ask)

    return Path(name, roots, load, port, **more)  # type: ignore[arg-type]


async def ready(path: Path, process: asyncio.subprocess.Process | None = None) -> Path:
    """Returns once it answers. Raises ``BenchError``."""
    try:
        async with asyncio.timeout(START_S):
            while (await path.put(Ask(1, False, 1, for_s=0.0))).answers < 1:
                if process is not None and process.returncode is not None:
                    raise BenchError(f"{path.name} ended with {process.returncode} as it started.")
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise BenchError(f"{path.name} has not answered within {START_S:g} s.") from None
    return path


async def direct(site: Site, engine: int) -> Path:
    return _over_http("direct", engine, ())


async def nginx(site: Site, engine: int) -> Path:
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        raise BenchError("nginx is not installed; `make bench-peers` installs it.")
    port, folder = free_port(), site.folder / "nginx"
    folder.mkdir()
    conf = folder / "nginx.conf"
    conf.write_text(_NGINX.format(folder=folder, engine=engine, port=port), encoding="utf-8")
    process = await site.start([program, "-c", str(conf), "-e", str(folder / "error.log")])
    return await ready(_over_http("nginx", port, (process.pid,)), process)


_NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/pid;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


async def vllm_router(site: Site, engine: int) -> Path:
    port = free_port()
    command = [
        _peer("vllm-router", "vllm-router"),
        *("--host", "127.0.0.1", "--port", str(port), "--worker-urls", f"http://127.0.0.1:{engine}"),
        *("--policy", "round_robin", "--log-level", "warning", "--prometheus-port", str(free_port())),
        *("--max-concurrent-requests", str(MOST_IN_FLIGHT)),
    ]
    process = await site.start(command)
    return await ready(_over_http("vllm-router", port, (process.pid,)), process)


async def litellm(site: Site, engine: int) -> Path:
    port = free_port()
    conf = site.folder / "litellm.yaml"
    model = {
        "model_name": MODEL,
        "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{engine}/v1", "api_key": "none"},
    }
    conf.write_text(json.dumps({"model_list": [model], "litellm_settings": {"telemetry": False}}), encoding="utf-8")
    command = [_peer("litellm", "litellm"), "--config", str(conf), "--port", str(port), "--num_workers", "1"]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    process = await site.start([*command, "--host", "127.0.0.1", "--telemetry", "False"], env=env)
    return await ready(_over_http("litellm", port, (process.pid,)), process)


async def openai_rq(site: Site, engine: int) -> Path:
    """Its client is a library, not a server: it runs in a process of its own, with the load."""
    redis, store = await redis_server(site)
    url = f"redis://127.0.0.1:{store}/0"
    command = [
        *(_peer("openai-rq", "openai-rq"), "worker", "--redis-url", url),
        *("--openai-base-url", f"http://127.0.0.1:{engine}/v1", "--concurrency", "256"),
    ]
    process = await site.start(command)
    load = await rq_put(site, _peer("openai-rq", "python"), url)
    return await ready(Path("openai-rq", (redis, process.pid), load), process)


def _peer(name: str, program: str) -> str:
    found = PEERS / name / "bin" / program
    if not found.exists():
        raise BenchError(f"{name} is not installed; `make bench-peers` installs it.")
    return str(found)


async def redis_server(site: Site) -> tuple[int, int]:
    """Its process and its port."""
    port = free_port()
    quiet = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", str(site.folder)]
    process = await site.start([redis_binary(), "--port", str(port), *quiet])
    return process.pid, port


def _settings(engine: int, port: int, slots: int) -> dict[str, str]:
    backend = {
        "name": "engine",
        "kind": "vllm",
        "url": f"http://127.0.0.1:{engine}",
        "max_in_flight": slots,
    }
    return {
        "DOUBLEBUFFER_BACKENDS": json.dumps([backend]),
        "DOUBLEBUFFER_PORT": str(port),
        "DOUBLEBUFFER_QUEUE_LIMIT": "20000",
    }


async def ours(
    site: Site,
    engine: int,
    *,
    name: str = "doublebuffer",
    each: int = 1,
    slots: int = MOST_IN_FLIGHT,
    env: Mapping[str, str] | None = None,
) -> Path:
    """``each``: gateway processes, and workers. ``slots``: answers at the engine at a time. ``env``: more settings."""
    port = free_port()
    redis, store = await redis_server(site)
    env = _settings(engine, port, slots) | {"REDIS_URL": f"redis://127.0.0.1:{store}/0"} | dict(env or {})
    env["DOUBLEBUFFER_PROCESSES"] = str(each)
    command = [sys.executable, "-m", "doublebuffer"]
    workers = [await site.start([*command, "worker"], env=env) for _ in range(each)]
    gateway = await site.start([*command, "gateway"], env=env)
    roots = (redis, gateway.pid, *(worker.pid for worker in workers))
    path = _over_http(name, port, roots, gateways=(gateway.pid,), store=store)
    return await ready(path, gateway)


async def embedded(site: Site, engine: int) -> Path:
    port = free_port()
    env = _settings(engine, port, MOST_IN_FLIGHT) | {"REDIS_URL": ""}
    process = await site.start([sys.executable, "-m", "doublebuffer", "up"], env=env)
    path = _over_http("doublebuffer up", port, (process.pid,), gateways=(process.pid,))
    return await ready(path, process)

"""A whole installation as real processes, a crowd before it, and faults; then the account."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.chaos.account import Account
from tests.chaos.attempts import Tried, most_at_once, read_attempts
from tests.chaos.children import Child, Redis
from tests.chaos.client import Result
from tests.chaos.crowd import Crowd
from tests.chaos.faults import Faults
from tests.chaos.leftovers import look
from tests.chaos.schedule import Sizes, plan
from tests.rig.redis_server import free_port

LEASE_S = 3.0
STALL_S = 3.0
FSYNC = "everysec"
"""As Redis has it unless told. A process that is killed loses nothing that it has handed to the kernel."""
START_S = 60.0
QUIET_S = 40.0
"""Longest wait, after the last answer, for the last place to be given back."""
ENGINES = (("vllm", "ollama"), ("vllm", "ollama"))
"""The kinds of back ends in each engine process."""
SETTINGS = {
    "DOUBLEBUFFER_LEASE_SECONDS": f"{LEASE_S:g}",
    "DOUBLEBUFFER_STALL_TIMEOUT_SECONDS": f"{STALL_S:g}",
    "DOUBLEBUFFER_FIRST_TOKEN_TIMEOUT_SECONDS": "5",
    "DOUBLEBUFFER_CONNECT_TIMEOUT_SECONDS": "1",
    "DOUBLEBUFFER_BREAKER_COOLDOWN_SECONDS": "1",
    "DOUBLEBUFFER_DRAIN_SECONDS": "2",
    # Long prompts are not to wait for so long that a slow machine takes them for hung.
    "DOUBLEBUFFER_MAX_WAIT_SECONDS": "10",
    # An answer meets more engines that fail here in its ten seconds than elsewhere in a year.
    "DOUBLEBUFFER_MAX_ATTEMPTS": "6",
}
_COMPLAINT = re.compile(r"^(Traceback|\w*Error\b|.*never retrieved|.*was never awaited|.*Task was destroyed)")


@dataclass(frozen=True, slots=True)
class Options:
    seconds: float = 60.0
    clients: int = 100
    words: tuple[int, int] = (20, 160)
    delay_s: float = 0.05
    """An engine's pace: between two tokens of an answer."""
    slots: int = 16
    """Of each back end."""
    workers: int = 3
    gateways: int = 2
    hang_s: float = 90.0
    """An answer that has not ended by then hangs."""
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    folder: Path | None = None
    """Where the run's own folder is made; unset: where temporary files are."""


@dataclass
class Site:
    folder: Path
    redis: Redis
    workers: list[Child]
    gateways: list[Child]
    engines: list[Child]
    urls: list[str]
    """Of the gateways."""
    backends: list[list[str]]
    """Addresses of each engine process's back ends."""

    @property
    def children(self) -> list[Child]:
        return [*self.engines, *self.workers, *self.gateways]

    @property
    def attempts(self) -> Path:
        return self.folder / "attempts.jsonl"

    def complaints(self) -> list[str]:
        found = []
        for child in self.children:
            lines = child.log.read_text(encoding="utf-8", errors="replace").splitlines()
            found += [f"{child.log}:{i}: {line}" for i, line in enumerate(lines, 1) if _COMPLAINT.match(line)]
        return found


@contextlib.asynccontextmanager
async def run_site(options: Options, name: str) -> AsyncIterator[Site]:
    """All processes, up and ready; ended when the block ends. Their logs stay."""
    folder = Path(tempfile.mkdtemp(prefix=f"doublebuffer-{name}-", dir=options.folder))
    redis = Redis(folder / "redis", FSYNC)
    ports = [[free_port() for _ in kinds] for kinds in ENGINES]
    specs = [
        (f"{kind}-{i}", kind, port)
        for i, kinds in enumerate(ENGINES)
        for kind, port in zip(kinds, ports[i], strict=True)
    ]
    configured = [
        {"name": name, "kind": kind, "url": f"http://127.0.0.1:{port}", "max_in_flight": options.slots}
        for name, kind, port in specs
    ]
    environment = {"REDIS_URL": redis.url, "DOUBLEBUFFER_BACKENDS": json.dumps(configured), **options.settings}
    gateway_ports = [free_port() for _ in range(options.gateways)]

    def engine(i: int) -> Child:
        own = [f"{name}:{kind}:{port}" for name, kind, port in specs if port in ports[i]]
        attempts = str(folder / "attempts.jsonl")
        arguments = ["tests.chaos.engine", "--attempts", attempts, "--delay", f"{options.delay_s:g}", *own]
        return Child(f"engine-{i}", arguments, folder, {})

    def command(name: str, *arguments: str) -> Child:
        return Child(name, ["doublebuffer", *arguments], folder, environment)

    site = Site(
        folder,
        redis,
        [command(f"worker-{i}", "worker") for i in range(options.workers)],
        [command(f"gateway-{i}", "gateway", "--port", str(port)) for i, port in enumerate(gateway_ports)],
        [engine(i) for i in range(len(ENGINES))],
        [f"http://127.0.0.1:{port}" for port in gateway_ports],
        [[f"http://127.0.0.1:{port}" for port in some] for some in ports],
    )
    await redis.start()
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(child.keep_running()) for child in site.children]
            await _ready(site)
            yield site
            for task in running:
                task.cancel()
    finally:
        redis.stop()


async def _ready(site: Site) -> None:
    names = [f"{kind}-{i}" for i, kinds in enumerate(ENGINES) for kind in kinds]
    wanted = {f'doublebuffer_backend_up{{backend="{name}"}} 1.0' for name in names}
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client, asyncio.timeout(START_S):
        for url in site.urls:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    ready = (await client.get(f"{url}/health/ready")).status_code == 200
                    if ready and wanted <= set((await client.get(f"{url}/metrics")).text.splitlines()):
                        break
                await asyncio.sleep(0.1)


def _excuse(results: Sequence[Result], attempts: Mapping[str, Sequence[Tried]], store: Redis) -> None:
    """An answer that was complete when its store was emptied was nowhere else any more."""
    for result in results:
        done = [tried.ended_at for tried in attempts.get(result.ask.task.marker, ()) if tried.how == "done"]
        if result.outcome == "forgotten" and done and store.was_emptied(done[-1], result.ended_at):
            result.outcome = "gone with its store"


async def run_chaos(seed: int, options: Options) -> Account:
    """One run. Its account is also written into its folder."""
    async with run_site(options, f"chaos-seed{seed}") as site:
        sizes = Sizes(options.workers, options.gateways, len(ENGINES))
        faults = plan(seed, options.seconds, sizes, lease_s=LEASE_S, stall_s=STALL_S)
        doing = Faults(
            site.workers, site.gateways, site.engines, site.backends, site.redis, site.folder / "faults.jsonl"
        )
        crowd = Crowd(
            seed,
            options.clients,
            options.words,
            options.hang_s,
            site.gateways,
            site.urls,
            site.redis,
            site.folder / "requests.jsonl",
        )
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(crowd.run(over))
            group.create_task(doing.run(faults))
            await asyncio.sleep(options.seconds)
            over.set()
        left = await look(site.redis.port, [url for some in site.backends for url in some], within_s=QUIET_S)
        left.lasting = sorted({*left.lasting, *doing.lasting})
        crashes = [crash for child in site.children for crash in child.crashes]
        attempts = read_attempts(site.attempts)
        _excuse(crowd.results, attempts, site.redis)
        account = Account(
            seed,
            options.seconds,
            crowd.results,
            attempts,
            doing.done,
            len(faults),
            left,
            site.folder,
            crashes,
            site.complaints(),
            {
                "times that a client found its gateway down": crowd.unreached,
                f"most at once at a back end of {options.slots} places": most_at_once(attempts),
            },
        )
    (site.folder / "account.txt").write_text(f"{account.table()}\n\n{account.details()}\n", encoding="utf-8")
    return account

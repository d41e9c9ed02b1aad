"""Several real Redis servers as one store: a master with a replica and Sentinels, and a Cluster."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from tests.rig.redis_server import END_PORT, RedisServer, free_port, redis_binary, run_redis

SERVICE = "main"
DOWN_AFTER_MS = 1000
START_S = 20.0
SLOTS = 16384


def ask(port: int, *command: Any) -> Any:
    """One command, of whatever server listens there."""
    with redis.Redis(port=port, socket_timeout=5) as client:
        return client.execute_command(*command)


def until(what: Any, *, within_s: float = START_S) -> None:
    """Waits until ``what()`` is true. Raises ``RuntimeError`` if it never is."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if what():
                return
        except (redis.RedisError, OSError):
            pass
        time.sleep(0.02)
    raise RuntimeError("a group of Redis servers did not get ready")


@dataclass
class SentinelGroup:
    """Two servers, of which one is the master, and three Sentinels."""

    servers: list[RedisServer]
    sentinels: list[int]
    """Their ports."""

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        return f"redis+sentinel://{places}/{SERVICE}/0"

    @property
    def port(self) -> int:
        """Of the master."""
        _, port = ask(self.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(port)

    @property
    def ports(self) -> list[int]:
        return [self.port]

    @property
    def master(self) -> RedisServer:
        return next(server for server in self.servers if server.port == self.port)

    def fail_over(self) -> None:
        """By hand: another server becomes the master. Returns as soon as it is known who."""
        before = self.port
        until(lambda: ask(self.sentinels[0], "SENTINEL", "FAILOVER", SERVICE))
        until(lambda: self.port != before)

    def until_replicated(self) -> None:
        """Waits until there is a replica that could take over."""
        until(lambda: b"state=online" in _info(self.port, "replication"))
        until(lambda: all(_knows_all(port) for port in self.sentinels))

    def kill_master(self) -> None:
        """Kill -9; returns at once."""
        self.master.stop()


@contextmanager
def run_sentinels(binary: str | None = None) -> Iterator[SentinelGroup]:
    """Ready for a failover."""
    with ExitStack() as stack:
        quick = ("--repl-diskless-sync-delay", "0")
        master = stack.enter_context(run_redis(*quick, binary=binary))
        replica = stack.enter_context(run_redis(*quick, "--replicaof", "127.0.0.1", str(master.port), binary=binary))
        until(lambda: b"state=online" in _info(master.port, "replication"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="doublebuffer-sentinel-")))
        ports = [free_port() for _ in range(3)]
        for port in ports:
            stack.enter_context(_sentinel(folder, port, master.port, binary or redis_binary()))
        group = SentinelGroup([master, replica], ports)
        for port in ports:
            until(lambda port=port: _knows_all(port))
        yield group


def _info(port: int, section: str) -> bytes:
    with redis.Redis(port=port, socket_timeout=5) as client:
        client.response_callbacks.pop("INFO", None)
        found: bytes = client.execute_command("INFO", section)
        return found


def _knows_all(port: int) -> bool:
    with redis.Redis(port=port, socket_timeout=5, decode_responses=True) as client:
        found: Any = client.sentinel_masters()
    state = found[SERVICE]
    return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 1)


@contextmanager
def _sentinel(folder: Path, port: int, master: int, binary: str) -> Iterator[None]:
    # A Sentinel writes its state into its configuration.
    file = folder / f"{port}.conf"
    file.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor {SERVICE} 127.0.0.1 {master} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
        f"sentinel failover-timeout {SERVICE} 3000\n"
    )
    with (folder / f"{port}.log").open("wb") as log:
        process = subprocess.Popen([binary, str(file), "--sentinel"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@dataclass
class Cluster:
    """Three masters that share the slots, and a replica of each where asked for."""

    nodes: list[RedisServer]
    replicas: list[RedisServer] = field(default_factory=list)

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def ports(self) -> list[int]:
        """Of the nodes that have slots."""
        alive = next(node for node in [*self.nodes, *self.replicas] if node.process is not None)
        return sorted({port for _, _, (_, port, *_), *_ in _raw_slots(alive.port)})

    def owner(self, slot: int) -> RedisServer:
        """The master that has a slot, as the others know."""
        for node in [*self.nodes, *self.replicas]:
            if node.process is None:
                continue
            for first, last, (_, port, *_), *_ in _raw_slots(node.port):
                if first <= slot <= last:
                    return next(one for one in [*self.nodes, *self.replicas] if one.port == port)
        raise RuntimeError(f"nobody has slot {slot}")


def _raw_slots(port: int) -> Any:
    with redis.Redis(port=port, socket_timeout=5) as client:
        client.response_callbacks.pop("CLUSTER SLOTS", None)
        return client.execute_command("CLUSTER SLOTS")


@contextmanager
def run_cluster(*, replicas: bool = False, binary: str | None = None) -> Iterator[Cluster]:
    """Slots are shared out by hand, which is quicker than redis-cli."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0")
    options = (*options, "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0")
    with ExitStack() as stack:
        nodes = [stack.enter_context(_node(options, binary)) for _ in range(3)]
        copies = [stack.enter_context(_node(options, binary)) for _ in nodes] if replicas else []
        bounds = [0, SLOTS // 3, 2 * SLOTS // 3, SLOTS]
        for i, node in enumerate(nodes):
            ask(node.port, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            ask(node.port, "CLUSTER", "ADDSLOTS", *range(bounds[i], bounds[i + 1]))
        for node in [*nodes[1:], *copies]:
            ask(nodes[0].port, "CLUSTER", "MEET", "127.0.0.1", node.port)
        every = [*nodes, *copies]
        until(lambda: all(_known(node.port) == len(every) for node in every))
        for node, copy in zip(nodes, copies, strict=False):
            name = ask(node.port, "CLUSTER", "MYID").decode()
            until(lambda copy=copy, name=name: ask(copy.port, "CLUSTER", "REPLICATE", name))
        until(lambda: all("cluster_state:ok" in _cluster_info(node.port) for node in every))
        if replicas:
            until(lambda: all(b"state=online" in _info(node.port, "replication") for node in nodes))
        yield Cluster(nodes, copies)


@contextmanager
def _node(options: tuple[str, ...], binary: str | None) -> Iterator[RedisServer]:
    # The bus listens 10,000 ports up.
    port = free_port(end=END_PORT - 10_000)
    with tempfile.TemporaryDirectory(prefix="doublebuffer-node-") as folder:
        server = RedisServer(binary or redis_binary(), Path(folder), options, port)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _cluster_info(port: int) -> str:
    with redis.Redis(port=port, socket_timeout=5) as client:
        client.response_callbacks.pop("CLUSTER INFO", None)
        found: bytes = client.execute_command("CLUSTER INFO")
        return found.decode()


def _known(port: int) -> int:
    words = (line.split(":") for line in _cluster_info(port).splitlines() if ":" in line)
    return int(dict(words)["cluster_known_nodes"])

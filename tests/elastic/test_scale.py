"""Scaling a Deployment, against a server that speaks as much of Kubernetes' API as that takes."""

from __future__ import annotations

import asyncio
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from worker.elastic_means import MeansError
from worker.elastic_scale import Scale

PATH = "/apis/apps/v1/namespaces/{}/deployments/engine/scale"


class Cluster(http.server.ThreadingHTTPServer):
    daemon_threads = True
    replicas = 0
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.calls: list[tuple[str, str, Any]] = []
        self.tokens: set[str] = set()


class Api(http.server.BaseHTTPRequestHandler):
    server: Cluster

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self._answer(None)

    def do_PATCH(self) -> None:
        assert self.headers["content-type"] == "application/merge-patch+json"
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.server.status == 200:
            self.server.replicas = body["spec"]["replicas"]
        self._answer(body)

    def _answer(self, body: Any) -> None:
        self.server.calls.append((self.command, self.path, body))
        self.server.tokens.add(self.headers["authorization"])
        told = json.dumps({"kind": "Scale", "spec": {"replicas": self.server.replicas}}).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cluster")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", "tls.key", "-out", "ca.crt"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "token").write_text("of-the-pod\n")
    (folder / "namespace").write_text("doublebuffer")
    return folder


@pytest.fixture
def cluster(certificate: Path) -> Iterator[Cluster]:
    server = Cluster()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "ca.crt", certificate / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def scale(cluster: Cluster, account: Path, target: str = "engine") -> Scale:
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.server_address[1])}
    return Scale(target, environ=environ, account=account)


async def begin(means: Scale) -> None:
    async with asyncio.TaskGroup() as tasks:
        await means.start(tasks)


async def test_from_none_to_one_and_back(cluster: Cluster, certificate: Path) -> None:
    means = scale(cluster, certificate)
    await begin(means)
    assert cluster.replicas == 1
    await means.stop()
    assert cluster.replicas == 0
    path = PATH.format("doublebuffer")
    assert [call for call in cluster.calls if call[0] == "PATCH"] == [
        ("PATCH", path, {"spec": {"replicas": 1}}),
        ("PATCH", path, {"spec": {"replicas": 0}}),
    ]
    assert cluster.tokens == {"Bearer of-the-pod"}


async def test_one_that_has_more_is_left_as_it_is(cluster: Cluster, certificate: Path) -> None:
    cluster.replicas = 3
    await begin(scale(cluster, certificate, "gpu/engine"))
    assert cluster.replicas == 3
    assert cluster.calls == [("GET", PATH.format("gpu"), None)]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (403, "The service account may not get deployments/scale of engine; let its Role do that."),
        (404, "There is no Deployment engine in namespace doublebuffer."),
        (500, "The cluster's API answered 500 when engine was to be scaled."),
    ],
)
async def test_what_the_cluster_refuses(cluster: Cluster, certificate: Path, status: int, expected: str) -> None:
    cluster.status = status
    with pytest.raises(ExceptionGroup) as caught:
        await begin(scale(cluster, certificate))
    assert str(caught.value.exceptions[0]) == expected


async def test_outside_a_cluster(certificate: Path, tmp_path: Path) -> None:
    with pytest.raises(MeansError, match="does not run in a cluster"):
        await Scale("engine", environ={}, account=certificate).stop()
    with pytest.raises(MeansError, match="no service account"):
        await Scale("engine", environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1"}, account=tmp_path).stop()


async def test_a_cluster_that_cannot_be_reached(certificate: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "9"}
    with pytest.raises(MeansError, match="cannot be reached: ConnectError"):
        await Scale("engine", environ=environ, account=certificate).stop()

"""A spare in Kubernetes: a Deployment that is scaled to one pod and back to none, by the pod's own service account."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from worker.elastic_means import MeansError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_S = 10.0


class Scale:
    """``target``: ``namespace/name`` of the Deployment, or its name in this pod's namespace. ``environ``, ``account``:
    where the cluster is told of, for tests.
    """

    own_process = False
    here = False
    failure = ""
    log = None

    def __init__(self, target: str, *, environ: Mapping[str, str] | None = None, account: Path = ACCOUNT) -> None:
        self._namespace, _, self._name = target.rpartition("/")
        self._environ = os.environ if environ is None else environ
        self._account = account

    def answers(self) -> None:
        return

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Raises ``MeansError``. One that somebody scaled to more is left as it is."""
        await self._scale(1)

    async def stop(self) -> None:
        """Raises ``MeansError``."""
        await self._scale(0)

    async def leave(self) -> None:
        return

    async def _scale(self, replicas: int) -> None:
        async with self._client() as client:
            path = f"/apis/apps/v1/namespaces/{self._place()}/deployments/{self._name}/scale"
            found = await self._ask(client, "GET", path)
            if replicas and _count(found) >= replicas:
                return
            await self._ask(client, "PATCH", path, {"spec": {"replicas": replicas}})

    def _client(self) -> httpx.AsyncClient:
        host, port = (self._environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        if not host:
            raise MeansError("It is scaled in Kubernetes, and this worker does not run in a cluster.")
        if ":" in host:
            host = f"[{host}]"
        try:
            # Read anew each time: it is another one every hour.
            token = (self._account / "token").read_text(encoding="ascii").strip()
            trusted = ssl.create_default_context(cafile=self._account / "ca.crt")
        except (OSError, ssl.SSLError, UnicodeError):
            raise MeansError(f"This pod has no service account in {self._account}.") from None
        return httpx.AsyncClient(
            base_url=f"https://{host}:{port or 443}",
            headers={"authorization": f"Bearer {token}"},
            verify=trusted,
            timeout=TIMEOUT_S,
            trust_env=False,
        )

    def _place(self) -> str:
        if self._namespace:
            return self._namespace
        try:
            return (self._account / "namespace").read_text(encoding="ascii").strip()
        except (OSError, UnicodeError):
            raise MeansError("This pod is not told its namespace: give scale as namespace/name.") from None

    async def _ask(self, client: httpx.AsyncClient, method: str, path: str, body: object = None) -> Any:
        headers = {"content-type": "application/merge-patch+json"} if body is not None else {}
        try:
            answer = await client.request(method, path, json=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise MeansError(f"The cluster's API cannot be reached: {type(error).__name__}.") from None
        match answer.status_code:
            case HTTPStatus.OK:
                return _json(answer)
            case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
                wanted = f"{method.lower()} deployments/scale"
                raise MeansError(f"The service account may not {wanted} of {self._name}; let its Role do that.")
            case HTTPStatus.NOT_FOUND:
                raise MeansError(f"There is no Deployment {self._name} in namespace {self._place()}.")
            case status:
                raise MeansError(f"The cluster's API answered {status} when {self._name} was to be scaled.")


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _count(told: Any) -> int:
    spec = told.get("spec") if isinstance(told, dict) else None
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    return replicas if isinstance(replicas, int) else 0

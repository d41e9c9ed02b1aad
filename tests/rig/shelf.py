"""The models of a scripted Ollama that come and go: its routes for that, and how far it tells to be."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Any

from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status, encode

PATHS = ("/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete")
BLOBS = "/api/blobs/"
DIGEST = "sha256:" + "ab" * 32


class Shelf:
    """``pages``: the server's, whose list of models it changes."""

    def __init__(self, pages: dict[str, Any]) -> None:
        self._pages = pages
        self.blobs: dict[str, bytes] = {}
        self.requests: list[Recorded] = []
        self.held: Iterable[Piece] = ()
        """What comes in the middle of a pull: a wait, for one."""
        self.script: list[Piece] | None = None
        """In place of an answer of its own, once."""
        self.came = asyncio.Event()

    @property
    def models(self) -> list[str]:
        return [entry["name"] for entry in self._pages["/api/tags"]["models"]]

    def answer(self, path: str, request: Recorded) -> list[Piece]:
        self.requests.append(request)
        self.came.set()
        if self.script is not None:
            script, self.script = self.script, None
            return script
        if path.startswith(BLOBS):
            return [self._blob(path.removeprefix(BLOBS), request)]
        body = request.json()
        if path == "/api/copy":
            return [self._copy(body["source"], body["destination"])]
        name = body.get("model") or body.get("name")
        if path == "/api/delete":
            return [self._delete(name)]
        return self._told(path, name, stream=body.get("stream") is not False)

    def _told(self, path: str, name: str, *, stream: bool) -> list[Piece]:
        if name.startswith("no-"):
            message = "pull model manifest: file does not exist"
            return [encode("ollama", {"error": message})] if stream else [Status(500, {"error": message})]
        if path == "/api/push" and _tagged(name) not in self.models:
            return [Status(404, {"error": f"model '{name}' not found"})]
        if path != "/api/push":
            self._add(name)
        if not stream:
            return [Status(200, {"status": "success"})]
        first = {"/api/pull": "pulling manifest", "/api/push": "retrieving manifest"}.get(
            path, "reading model metadata"
        )
        layer = {"status": f"pulling {DIGEST[7:19]}", "digest": DIGEST, "total": 100}
        return [
            {"status": first},
            {**layer, "completed": 40},
            *self.held,
            {**layer, "completed": 100},
            {"status": "success"},
        ]

    def _copy(self, source: str, destination: str) -> Status:
        if _tagged(source) not in self.models:
            return Status(404, {"error": f'model "{source}" not found'})
        self._add(destination)
        return Status(200, b"")

    def _delete(self, name: str) -> Status:
        listed = self._pages["/api/tags"]["models"]
        left = [entry for entry in listed if entry["name"].lower() != _tagged(name).lower()]
        if len(left) == len(listed):
            return Status(404, {"error": f"model '{name}' not found"})
        listed[:] = left
        return Status(200, b"")

    def _blob(self, digest: str, request: Recorded) -> Status:
        if request.method == "HEAD":
            return Status(200 if digest in self.blobs else 404, b"")
        if digest != "sha256:" + hashlib.sha256(request.body).hexdigest():
            return Status(400, {"error": "digest mismatch"})
        known = digest in self.blobs
        self.blobs[digest] = request.body
        return Status(200 if known else 201, b"")

    def _add(self, name: str) -> None:
        listed = self._pages["/api/tags"]["models"]
        name = _tagged(name)
        if name not in self.models:
            listed.append({"name": name, "model": name, "digest": f"digest-of-{name}", "size": 1, "details": {}})


def _tagged(name: str) -> str:
    return name if ":" in name else f"{name}:latest"

"""What ``doublebuffer batch run`` asks of a gateway, which may be started anew in the middle."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx

POLL_S = 1.0
PATIENCE_S = 300.0
"""How long a gateway may be away in the middle."""


class BatchRunError(Exception):
    """It cannot be done. ``str()`` is one sentence that says what to do."""


class Calls:
    """To be entered. ``url``: of the gateway; ``key``: empty where it asks for none."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(base_url=f"{url}/v1", headers=headers, timeout=60.0, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def content(self, id: str | None) -> Iterator[bytes]:
        """Its lines, each with its line break."""
        if id is None:
            return
        try:
            with self._client.stream("GET", f"/files/{id}/content") as answer:
                if answer.status_code != 200:
                    answer.read()
                    self.good(answer)
                rest = b""
                for piece in answer.iter_bytes():
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield line + b"\n"
        except httpx.HTTPError as error:
            raise self._away(error) from None

    def delete(self, id: str | None) -> None:
        """A file that nobody needs any more. That it cannot be done is no failure: it expires."""
        if id is not None:
            with contextlib.suppress(httpx.HTTPError):
                self._client.delete(f"/files/{id}")

    def ask(self, method: str, path: str) -> httpx.Response:
        """Once more while the gateway is away: it may be started anew in the middle."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self._client.request(method, path)
            except httpx.HTTPError as error:
                if time.monotonic() > until:
                    raise self._away(error) from None
            else:
                if answer.status_code < 500 or time.monotonic() > until:
                    return answer
            time.sleep(POLL_S)

    def once(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise self._away(error) from None

    def _away(self, error: httpx.HTTPError) -> BatchRunError:
        reason = str(error).rstrip(".") or type(error).__name__
        return BatchRunError(f"{self._url} does not answer ({reason}); --url says where the gateway is.")

    def good(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            told = answer.json()
        except ValueError:
            told = {}
        if answer.status_code == 200 and isinstance(told, dict):
            return told
        if answer.status_code == 401:
            raise BatchRunError("The gateway asks for a key: give one as --key.")
        message = (told.get("error") or {}).get("message") if isinstance(told, dict) else None
        raise BatchRunError(str(message or f"{self._url} answered with status {answer.status_code}."))

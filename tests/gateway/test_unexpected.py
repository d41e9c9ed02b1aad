"""What nobody thought of: the client gets an answer in its own API's form, the log the reason."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.catalog import Catalog
from gateway.intake import Intake
from tests.gateway.rig import Wire, ollama, rig


def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError("never thought of")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/chat"), ("GET", "/api/tags"), ("POST", "/v1/chat/completions"), ("GET", "/v1/models")],
)
async def test_an_error_of_our_own(
    method: str, path: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async with rig() as r:
        monkeypatch.setattr(Intake, "order", fail)
        monkeypatch.setattr(Catalog, "list", fail)
        body = ollama() if method == "POST" else None
        got = await r.client.request(method, path, json=body, headers={"Origin": "http://localhost"})
        assert got.status_code == 500
        assert got.headers["x-request-id"]
        assert got.headers["access-control-allow-origin"]
        error = got.json()["error"]
        if path.startswith("/api/"):
            assert isinstance(error, str)
        else:
            assert (error["type"], error["code"]) == ("server_error", "internal_error")
        assert "never" not in got.text
        if method == "POST":
            await r.counted("ollama" if path == "/api/chat" else "openai", "none", "backend_error")
    assert "never thought of" in capfd.readouterr().err


async def test_a_client_that_leaves_while_it_asks_about_a_model(capfd: pytest.CaptureFixture[str]) -> None:
    async with rig() as r:
        reader, writer = await asyncio.open_connection("127.0.0.1", r.port)
        writer.write(b"POST /api/show HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        await asyncio.sleep(0.1)
        await Wire(reader, writer).leave()
        await asyncio.sleep(0.1)
    assert "ERROR" not in capfd.readouterr().err

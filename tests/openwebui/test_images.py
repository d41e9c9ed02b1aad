"""A picture in a chat reaches the engine byte for byte, in the words of the engine's own API."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pytest

from tests.openwebui.api import Api
from tests.openwebui.scripted import KINDS, Bench, name_of

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]


def png(side: int = 16) -> bytes:
    """A square of colours."""

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + bytes((x * 16, y * 16, 128)[i] for x in range(side) for i in range(3)) for y in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def pictures_of(kind: str, message: dict[str, Any]) -> list[bytes]:
    if kind == "ollama":
        return [base64.b64decode(one, validate=True) for one in message["images"]]
    urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    assert all(url.startswith("data:image/png;base64,") for url in urls)
    return [base64.b64decode(url.partition(",")[2], validate=True) for url in urls]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_a_picture_reaches_the_engine(bench: Bench, bench_api: Api, connection: str, kind: str) -> None:
    picture = png()
    url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    answered = await bench_api.ask(name_of(connection, kind), content)
    assert answered.status_code == 200, answered.text
    assert answered.json()["choices"][0]["message"]["content"]
    (request,) = bench.engines[kind].requests
    (message,) = request.json()["messages"]
    assert pictures_of(kind, message) == [picture]
    words = message["content"]
    assert (words if kind == "ollama" else words[0]["text"]) == "What is this?"

"""Pictures in either dialect's form, small and large, to engines that take them in their own form only."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import zlib
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import is_native_error
from tests.cases.rig import BOTH, OAI, OLL, Bench, redis_memory
from tests.cases.scripts import oai, oll
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Status

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


def _part(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


_HEAD = b"\x89PNG\r\n\x1a\n"
SMALL = (
    _HEAD
    + _part(b"IHDR", bytes([0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0]))
    + _part(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    + _part(b"IEND", b"")
)
LARGE = _HEAD + os.urandom(15 * 1024 * 1024)
ASKED = "what is this"


def encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def url(picture: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{encoded(picture)}"


class Eyes:
    """What strict engines saw."""

    def __init__(self) -> None:
        self.pictures: list[str] = []
        self.texts: list[str] = []

    def of_ollama(self, request: Recorded) -> list[Piece]:
        message = request.json()["messages"][-1]
        if not isinstance(message["content"], str):
            return [Status(400, {"error": "json: cannot unmarshal array into field Message.content"})]
        for image in message.get("images") or []:
            try:
                self.pictures.append(hashlib.sha256(base64.b64decode(image, validate=True)).hexdigest())
            except ValueError:
                return [Status(400, {"error": "illegal base64 data at input byte 4"})]
        self.texts.append(message["content"])
        return oll(request, "a ", "dot")

    def of_openai(self, request: Recorded) -> list[Piece]:
        content = request.json()["messages"][-1]["content"]
        texts = []
        for part in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            if part["type"] == "text":
                texts.append(part["text"])
                continue
            head, _, data = part["image_url"]["url"].partition(",")
            if not head.startswith("data:image/") or not head.endswith(";base64"):
                return [Status(400, {"error": {"message": "Invalid image url", "type": "x"}})]
            self.pictures.append(hashlib.sha256(base64.b64decode(data, validate=True)).hexdigest())
        self.texts.append("".join(texts))
        return oai(request, "a ", "dot")


@pytest_asyncio.fixture(loop_scope="module")
async def eyes(bench: Bench) -> Eyes:
    found = Eyes()
    bench.oai.script, bench.oll.script = found.of_openai, found.of_ollama
    return found


def openai_form(*parts: str | bytes, kind: str = "png") -> list[dict[str, Any]]:
    shown = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": url(part, kind)}}
        for part in parts
    ]
    return [{"role": "user", "content": shown}]


def ollama_form(*images: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": ASKED, "images": list(images)}]


def seen(*pictures: bytes) -> list[str]:
    return [hashlib.sha256(picture).hexdigest() for picture in pictures]


@pytest.mark.parametrize("model", BOTH)
async def test_a_small_picture_arrives_as_it_was(bench: Bench, eyes: Eyes, model: str) -> None:
    one = await bench.chat("openai", model, messages=openai_form(ASKED, SMALL))
    other = await bench.chat("ollama", model, messages=ollama_form(encoded(SMALL)), stream=False)
    assert (one.content, other.content) == ("a dot", "a dot")
    assert eyes.pictures == seen(SMALL, SMALL)
    assert eyes.texts == [ASKED, ASKED]


@pytest.mark.parametrize("model", BOTH)
async def test_texts_around_it_stay_in_order(bench: Bench, eyes: Eyes, model: str) -> None:
    messages = openai_form("before ", SMALL, "after", kind="jpeg")
    assert (await bench.chat("openai", model, messages=messages, stream=True)).content == "a dot"
    assert eyes.pictures == seen(SMALL)
    (text,) = eyes.texts
    assert text.index("before") < text.index("after")


@pytest.mark.parametrize("model", BOTH)
async def test_several_pictures_in_order(bench: Bench, eyes: Eyes, model: str) -> None:
    second = SMALL + b"\0second"
    assert (await bench.chat("openai", model, messages=openai_form(SMALL, ASKED, second))).content == "a dot"
    images = (encoded(second), encoded(SMALL))
    assert (await bench.chat("ollama", model, messages=ollama_form(*images), stream=False)).content == "a dot"
    assert eyes.pictures == seen(SMALL, second, second, SMALL)


@pytest.mark.parametrize("model", BOTH)
async def test_other_ways_to_write_base64(bench: Bench, eyes: Eyes, model: str) -> None:
    """With a ``data:`` prefix in Ollama's list; in lines; without padding; by the older route; as a bare text."""
    bare = encoded(SMALL)
    lines = "\r\n".join(bare[i : i + 76] for i in range(0, len(bare), 76))
    for image in (
        url(SMALL),
        url(SMALL, "webp"),
        lines,
        bare.rstrip("="),
        f" {bare}\n",
        f"DATA:image/PNG;base64,{bare}",
    ):
        reply = await bench.chat("ollama", model, messages=ollama_form(image), stream=False)
        assert reply.content == "a dot", image[:30]
    assert eyes.pictures == seen(*[SMALL] * 6)
    generated = await bench.ask("/api/generate", {"model": OAI, "prompt": ASKED, "images": [bare], "stream": False})
    assert generated.json()["response"] == "a dot"
    assert eyes.pictures[6:] == seen(SMALL)


BROKEN = (
    "",
    "!!!!",
    "data:image/png;base64,",
    "data:image/png,abc",
    "data:;base64",
    "a",
    "=",
    "http://127.0.0.1:1/x.png",
    "é",
)


@pytest.mark.parametrize("model", BOTH)
async def test_what_is_no_picture_is_refused(bench: Bench, eyes: Eyes, model: str) -> None:
    for image in BROKEN:
        messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}]
        reply = await bench.chat("openai", model, messages=messages)
        assert reply.status == 400, (image, reply.status, reply.body)
        reply = await bench.chat("ollama", model, messages=ollama_form(image), stream=False)
        if image or reply.status != 200:  # Ollama passes over an empty one
            assert reply.status == 400, (image, reply.status, reply.body)
            assert is_native_error(reply)
    strange: list[Any] = [None, 7, "x", {}, {"url": None}, {"url": 7}, []]
    for given in strange:
        messages = [{"role": "user", "content": [{"type": "image_url", "image_url": given}]}]
        reply = await bench.chat("openai", model, messages=messages)
        assert reply.status == 400, (given, reply.status, reply.body)
    assert not eyes.pictures


@pytest.mark.slow
async def test_a_large_picture_arrives_and_leaves_nothing_behind(bench: Bench, eyes: Eyes) -> None:
    """15 MiB: in time, and a minute later the store is as it was."""
    before = await redis_memory(bench.site)
    for model in BOTH:
        replies = [
            await bench.chat("openai", model, messages=openai_form(ASKED, LARGE)),
            await bench.chat("ollama", model, messages=ollama_form(encoded(LARGE)), stream=False),
        ]
        for reply in replies:
            assert reply.status == 200, (reply.status, reply.body[:300])
            assert reply.content == "a dot"
            assert reply.took_s < 20
    assert eyes.pictures == seen(*[LARGE] * 4)
    for engine in (bench.oai, bench.oll):
        engine.requests.clear()
    async with asyncio.timeout(65):
        while await redis_memory(bench.site) > before + 5 * 1024 * 1024:
            await asyncio.sleep(0.5)
    assert (await bench.chat("openai", OLL, messages=openai_form(ASKED, SMALL))).content == "a dot"

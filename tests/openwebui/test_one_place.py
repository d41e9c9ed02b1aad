"""A back end with one place: what Open WebUI asks around a chat never delays its answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.openwebui.browser import Browser
from tests.openwebui.front import TITLE_TEMPLATE
from tests.openwebui.installation import NAMES, Installation
from tests.rig.connection import Recorded
from tests.rig.script import Piece, Sleep, answer

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(360)]

WORDS = 40
TOKEN_S = 0.05
QUESTION = "What does the harbour do?"
TITLE = TITLE_TEMPLATE.partition("\n")[0]


@dataclass
class Played:
    """What the engine was asked, in order, and from when to when it was at it."""

    names: list[str] = field(default_factory=list)
    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)

    def script(self, request: Recorded) -> Iterator[Piece]:
        body = request.json()
        text = str(body["messages"][-1]["content"])
        name = "title" if TITLE in text else "chat" if len(text) < len(QUESTION) + 20 else "task"
        self.names.append(name)
        self.began[name] = time.monotonic()
        yield Sleep(TOKEN_S)
        for piece in answer("openai", *(["word "] * WORDS)):
            yield Sleep(TOKEN_S)
            yield piece
        self.ended[name] = time.monotonic()


@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_the_title_comes_after_the_answer(browser: Browser, installation: Installation, connection: str) -> None:
    await installation.is_quiet()
    played = Played()
    installation.single.script = played.script
    await browser.chat_with(NAMES[connection]["single"])
    await browser.do("say", text=QUESTION)
    answered = await browser.do("watch")
    await installation.is_quiet()
    installation.single.script = None
    assert answered["text"].startswith("word word")
    assert played.names[0] == "chat", "the first thing that the engine was asked"
    assert "title" in played.names
    assert played.began["title"] >= played.ended["chat"]

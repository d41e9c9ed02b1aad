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
SOON_S = 0.5
"""How long a chat may wait, on a busy machine; an answer takes two seconds."""
QUESTION = "What does the harbour do?"
TITLE = TITLE_TEMPLATE.partition("\n")[0]


@dataclass
class Played:
    """What the engine was asked, in order: which, and from when to when it was at it, if to the end."""

    asked: list[tuple[str, float, float | None]] = field(default_factory=list)

    def script(self, request: Recorded) -> Iterator[Piece]:
        text = str(request.json()["messages"][-1]["content"])
        name = "title" if TITLE in text else "chat" if len(text) < len(QUESTION) + 20 else "task"
        place = len(self.asked)
        self.asked.append((name, time.monotonic(), None))
        yield Sleep(TOKEN_S)
        for piece in answer("openai", *(["word "] * WORDS)):
            yield Sleep(TOKEN_S)
            yield piece
        self.asked[place] = (*self.asked[place][:2], time.monotonic())

    def whole(self, name: str) -> tuple[float, float]:
        """When what was answered to its end began and ended; once, though it may have been begun before."""
        (times,) = [(began, ended) for one, began, ended in self.asked if one == name and ended is not None]
        return times


async def waited_s(installation: Installation) -> float:
    """In queues, of all chats that people have begun."""
    samples = await installation.site.metrics()
    lanes = ("thinking", "fast", "normal", "slow")
    return sum(samples.get(f'doublebuffer_queue_wait_seconds_sum{{lane="{lane}"}}', 0.0) for lane in lanes)


@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_the_title_never_delays_the_answer(browser: Browser, installation: Installation, connection: str) -> None:
    """Open WebUI asks for it first. It waits for the chat; where that is slow to come, it has begun, and makes room."""
    await installation.is_quiet()
    played = Played()
    installation.single.script = played.script
    before_s = await waited_s(installation)
    await browser.chat_with(NAMES[connection]["single"])
    await browser.do("say", text=QUESTION)
    answered = await browser.do("watch")
    await installation.is_quiet()
    installation.single.script = None
    assert answered["text"].startswith("word word")
    assert await waited_s(installation) - before_s < SOON_S
    assert played.whole("title")[0] >= played.whole("chat")[1]

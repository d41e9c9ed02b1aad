"""An engine that dies under an answer, as Open WebUI's page tells it."""

from __future__ import annotations

import pytest

from tests.openwebui.browser import Browser
from tests.openwebui.installation import NAMES, Installation, within

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(360)]

BACK_S = 60.0


@pytest.mark.parametrize("connection", ["ollama", "openai"])
async def test_a_broken_answer_keeps_its_words_and_says_so(
    browser: Browser, installation: Installation, connection: str
) -> None:
    await installation.is_quiet()
    await browser.chat_with(NAMES[connection]["simulated"])
    await browser.do("say", text="What does the harbor do, and why?")
    before = await browser.do("writing", least=300)
    await installation.simulator.kill()
    await browser.do("ended")
    after = await browser.do("look")

    async def usable() -> bool:
        samples = await installation.site.metrics()
        up, broken = (f'doublebuffer_{name}{{backend="simulated"}}' for name in ("backend_up", "breaker_open"))
        return bool(samples[up] and not samples[broken])

    await installation.simulator.start()
    await within(BACK_S, usable)
    await installation.is_quiet()
    assert before["text"]
    assert after["text"].startswith(before["text"])
    assert "closed the connection before the answer was complete" in after["whole"]

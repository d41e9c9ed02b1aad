"""Open WebUI's page in a real browser: the menu, an answer that streams, Stop, Regenerate, and what happens around."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.openwebui.api import Api
from tests.openwebui.browser import Browser
from tests.openwebui.front import TITLE_TEMPLATE
from tests.openwebui.installation import NAMES, SLOTS, Installation, braked, within

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(360)]

FREED_S = 1.0
HALT_S = 600.0
TASKS = 3
"""Title, follow-ups and tags: what Open WebUI asks for after the first answer of a chat."""
TASKS_S = 60.0

TINY_BY_OPENAI = NAMES["openai"]["tiny"]

by_both = pytest.mark.parametrize("connection", ["ollama", "openai"])


async def test_the_menu_lists_the_models_of_both_connections(browser: Browser) -> None:
    await browser.do("newChat")
    assert {name for of in NAMES.values() for name in of.values()} == set(await browser.do("models"))


@by_both
async def test_an_answer_streams_in_under_its_thought(browser: Browser, connection: str) -> None:
    await browser.chat_with(NAMES[connection]["simulated"])
    await browser.do("say", text="What does the sailor do?")
    answer = await browser.do("watch")
    assert len(answer["lengths"]) > 5, "it came in one piece"
    assert answer["text"].startswith("This answer is simulated")
    assert answer["thoughtLabel"].startswith("Thought for")
    await browser.do("openThought")
    assert (await browser.do("look"))["thought"].startswith("Simulated thinking")
    assert answer["notices"] == []


@by_both
async def test_a_real_model_thinks_and_answers(browser: Browser, connection: str) -> None:
    await browser.chat_with(NAMES[connection]["tiny"])
    await browser.do("say", text="What does the lighthouse do?")
    answer = await browser.do("watch")
    assert answer["text"].endswith(".")
    await browser.do("openThought")
    assert (await browser.do("look"))["thought"].startswith("Let me think about this.")


@by_both
async def test_stop_frees_the_engine(browser: Browser, installation: Installation, connection: str) -> None:
    """At the second question, with which no title is asked for: nothing but the answer runs."""
    await browser.chat_with(NAMES[connection]["simulated"])
    await browser.do("say", text="What does the worker do?")
    first = await browser.do("watch")
    await installation.is_quiet()
    cancelled = await installation.ended(outcome="cancelled")
    await browser.do("say", text="What does the engine do, and why?")
    await browser.do("writing", least=60, besides=first["id"])
    assert await installation.simulated_running() == 1
    assert await installation.in_flight() == 1
    await browser.do("stop")

    async def free() -> bool:
        return await installation.simulated_running() == 0

    async def counted() -> bool:
        return await installation.in_flight() == 0 and await installation.ended(outcome="cancelled") == cancelled + 1

    await within(FREED_S, free)
    await within(FREED_S, counted)
    left = await browser.do("look")
    assert left["text"].startswith("This answer is simulated")
    assert left["notices"] == []


async def test_stop_frees_a_slot_of_llama(browser: Browser, installation: Installation, api: Api) -> None:
    """An answer of some thousand tokens, slowly: it cannot have ended by itself."""
    await api.make_model("endless", TINY_BY_OPENAI, {"max_tokens": 3500, "custom_params": {"ignore_eos": True}})
    try:
        await browser.chat_with(TINY_BY_OPENAI)
        await browser.do("say", text="What does the model do?")
        first = await browser.do("watch")
        await installation.is_quiet()
        await browser.pick("endless")
        async with braked(installation.llama.pid):
            await browser.do("say", text="What does the storm do?")
            await browser.do("writing", least=100, besides=first["id"])
            assert await asyncio.to_thread(installation.llama.busy_slots) == 1
            await browser.do("stop")

            async def free() -> bool:
                return await asyncio.to_thread(installation.llama.busy_slots) == 0

            await within(FREED_S, free)
    finally:
        await api.drop_model("endless")


@by_both
async def test_stop_takes_a_waiting_chat_out_of_the_queue(
    browser: Browser, installation: Installation, api: Api, connection: str
) -> None:
    """Two chats hold the slots of an engine that stands still; no word has come of the third when it is stopped."""
    await browser.chat_with(NAMES[connection]["tiny"])
    await browser.do("say", text="What does the compass do?")
    first = await browser.do("watch")
    await installation.is_quiet()
    cancelled = await installation.ended(outcome="cancelled")

    async def slots_are_taken() -> bool:
        return await installation.in_flight() == SLOTS

    async def one_waits() -> bool:
        return await installation.waiting() == 1

    async def it_has_left() -> bool:
        return await installation.waiting() == 0 and await installation.ended(outcome="cancelled") == cancelled + 1

    async with braked(installation.llama.pid, run_s=0.0, rest_s=HALT_S), asyncio.TaskGroup() as others:
        holding = [others.create_task(api.streamed(TINY_BY_OPENAI, "What does the batch do?")) for _ in range(SLOTS)]
        await within(5, slots_are_taken)
        await browser.do("say", text="And what does the lantern do?")
        await within(10, one_waits)
        await browser.do("stop")
        await within(FREED_S, it_has_left)
        assert await slots_are_taken()
        os.kill(installation.llama.pid, signal.SIGCONT)
    assert all(task.result().text for task in holding)
    assert (await browser.do("look"))["id"] != first["id"]


@by_both
async def test_regenerate_gives_another_answer(browser: Browser, installation: Installation, connection: str) -> None:
    await browser.chat_with(NAMES[connection]["tiny"])
    await browser.do("say", text="What does the bridge do?")
    first = await browser.do("watch")
    await installation.is_quiet()
    chats = await installation.ended(outcome="ok") - await installation.ended("background")
    await browser.do("regenerate")
    second = await browser.do("watch", besides=first["id"])
    assert second["text"].endswith(".")
    assert second["id"] != first["id"]
    assert await installation.ended(outcome="ok") - await installation.ended("background") == chats + 1


@by_both
async def test_what_open_webui_asks_by_itself_goes_to_the_background(
    browser: Browser, installation: Installation, api: Api, connection: str
) -> None:
    """And the chat is its user's, not Open WebUI's. What it asks a title with is known by the header alone."""
    assert (await api.get("/api/v1/tasks/config"))["TITLE_GENERATION_PROMPT_TEMPLATE"] == TITLE_TEMPLATE
    await installation.is_quiet()
    total, background = await installation.ended(), await installation.ended("background", "ok")
    await browser.chat_with(NAMES[connection]["simulated"])
    await browser.do("say", text="What does the signal do?")
    await browser.do("writing", least=60)
    assert await installation.users() == {f"person:{api.user}"}
    assert await installation.ended() == total, "a task was answered before the person"
    await browser.do("watch")

    async def all_ended() -> bool:
        return await installation.ended() >= total + 1 + TASKS

    await within(TASKS_S, all_ended)
    await installation.is_quiet()
    assert await installation.ended("background", "ok") == background + TASKS
    assert await installation.ended() == total + 1 + TASKS


async def test_pictures(browser: Browser, installation: Installation, pictures: Path) -> None:
    await installation.is_quiet()
    menu, chat = pictures / "open-webui-models.png", pictures / "open-webui-chat.png"
    await browser.do("newChat")
    await browser.do("models")
    await browser.do("picture", file=str(menu))
    await browser.do("choose", model=NAMES["ollama"]["tiny"])
    await browser.do("say", text="What does the lighthouse do in a storm?")
    await browser.do("watch")
    await browser.do("openThought")
    await browser.do("picture", file=str(chat))
    assert all(1_000 < file.stat().st_size < 200_000 for file in (menu, chat))

"""Open WebUI's API over both of its connections: every model is listed, and answers in both ways."""

from __future__ import annotations

import pytest

from tests.openwebui.api import Api
from tests.openwebui.front import PREFIX
from tests.openwebui.installation import NAMES, SIMULATED, SINGLE, TINY, Installation

pytestmark = [pytest.mark.openwebui, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(360)]

MODELS = [name for of in NAMES.values() for name in of.values()]


async def test_every_model_is_listed_by_both_connections(api: Api) -> None:
    assert await api.models() == {name: connection for connection, of in NAMES.items() for name in of.values()}


async def test_what_open_webui_asks_a_server_of_itself_is_answered(api: Api) -> None:
    version = (await api.get("/ollama/api/version"))["version"]
    assert all(part.isdigit() for part in version.split("."))
    tags = (await api.get("/ollama/api/tags"))["models"]
    assert {entry["model"] for entry in tags} == set(NAMES["ollama"].values())
    listed = (await api.get("/openai/models"))["data"]
    assert {entry["id"].removeprefix(f"{PREFIX}.") for entry in listed} == {SIMULATED, SINGLE, TINY}


@pytest.mark.parametrize("model", MODELS)
async def test_a_whole_answer(api: Api, model: str) -> None:
    said = await api.whole(model, "What does the harbor do?")
    assert said.text.strip()
    assert said.reason == "stop"
    assert "think>" not in said.text


@pytest.mark.parametrize("model", MODELS)
async def test_a_streamed_answer_with_its_thought(api: Api, model: str) -> None:
    said = await api.streamed(model, "What does the harbor do?")
    assert said.text.strip()
    assert said.thought.strip()
    assert said.reason == "stop"
    # The scripted one thinks in three pieces, and has five words to say.
    assert said.pieces > 8
    assert "think>" not in said.text


async def test_a_chat_by_script_is_one_request(api: Api, installation: Installation) -> None:
    """And a person's: only what Open WebUI asks by itself goes to the background."""
    total, background = await installation.ended(), await installation.ended("background")
    await api.streamed(NAMES["openai"]["tiny"], "What does the river do?")
    assert await installation.ended() == total + 1
    assert await installation.ended("background") == background

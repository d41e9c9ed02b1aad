"""Token ids: a prompt that is read in pieces by its ids is remembered as the chat that it belongs to."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from simulate.tokens import ids_of, text_of
from tests.simulate.serving import served

MODEL = "simulated-qwen3:14b"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
LONG = "größer " + "word " * 800


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served() as url, httpx.AsyncClient(base_url=url, trust_env=False) as made:
        yield made


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(path, json={"model": MODEL, **body})
    assert answer.status_code == 200, answer.text
    read: dict[str, Any] = answer.json()
    return read


def cached(answer: dict[str, Any]) -> int:
    count: int = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


@pytest.mark.parametrize("text", ["", "abcd", "abcde", "größer, 大模型", "astral \U0001f600 faces", "line\nend\n"])
def test_ids_stand_for_their_text(text: str) -> None:
    ids = ids_of(text)
    assert len(ids) == -(-len(text) // 4)
    assert text_of(ids) == text.replace("\U0001f600", "\ufffd")
    assert ids_of(text[:8]) == ids[:2]


@pytest.mark.parametrize("ids", [[-1], [2**64], ["x"]])
def test_what_is_no_id(ids: list[Any]) -> None:
    with pytest.raises(ValueError):
        text_of(ids)


@pytest.mark.parametrize("more", [{}, {"tools": [TOOL]}])
async def test_a_chat_finds_what_was_read_of_it_by_its_ids(client: httpx.AsyncClient, more: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": LONG}]
    told = await post(client, "/tokenize", messages=messages, **more)
    assert told["count"] == len(told["tokens"]) > 1000
    for upto, before in ((512, 0), (1000, 512)):
        piece = await post(client, "/v1/completions", prompt=told["tokens"][:upto], max_tokens=1)
        assert piece["usage"]["prompt_tokens"] == upto
        assert piece["usage"]["completion_tokens"] == 1
        assert cached(piece) == before
    whole = await post(client, "/v1/chat/completions", messages=messages, max_tokens=4, **more)
    assert whole["usage"]["prompt_tokens"] == told["count"]
    assert cached(whole) == 1000 // 16 * 16


async def test_a_literal_prompt_has_ids_too(client: httpx.AsyncClient) -> None:
    told = await post(client, "/tokenize", prompt="Once upon a time")
    assert told["tokens"] == ids_of("Once upon a time")
    assert told["max_model_len"] > 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "nobody", "prompt": "x"}, 404),
        ({}, 400),
        ({"prompt": "x", "messages": []}, 400),
        ({"messages": [{"content": "x"}]}, 400),
    ],
)
async def test_what_is_refused(client: httpx.AsyncClient, body: dict[str, Any], status: int) -> None:
    assert (await client.post("/tokenize", json=body)).status_code == status


async def test_no_ids_that_are_none(client: httpx.AsyncClient) -> None:
    for prompt in ([-1], []):
        answer = await client.post("/v1/completions", json={"prompt": prompt})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "prompt"


async def test_an_ollama_has_no_such_door() -> None:
    async with served("rtx4090-ollama") as url, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.post(f"{url}/tokenize", json={"prompt": "x"})).status_code == 404

"""A back end that refuses embeddings through a fault of its own: another one makes them."""

from __future__ import annotations

import asyncio

import pytest

from tests.embeddings.rig import MODEL, house
from tests.rig.embeddings import close, unit_vector
from tests.rig.script import Status

REFUSALS = {
    "401": (Status(401, {"error": "Unauthorized"}), 502),
    "403": (Status(403, {"error": "Forbidden"}), 502),
    "404": (Status(404, {"error": f"model '{MODEL}' not found"}), 404),
}


@pytest.mark.parametrize("word", REFUSALS)
async def test_another_takes_what_one_refuses(word: str) -> None:
    async with house("vllm", "llamacpp", breaker_failures=2) as h:
        one, two = (engine.embeddings for engine in h.engines)
        one.once = [[REFUSALS[word][0]]] * 100
        while len(one.calls) < 2:
            answers = await asyncio.gather(*(h.embed([f"t{count}"]) for count in range(20)))
            for count, answer in enumerate(answers):
                assert answer.status_code == 200, answer.text
                assert close(answer.json()["embeddings"][0], unit_vector(f"t{count}"))
        assert two.calls
        calls = len(one.calls)
        assert (await h.embed(["more"])).status_code == 200
        assert len(one.calls) == calls, "it is left alone now"
        await h.quiet()


@pytest.mark.parametrize("word", REFUSALS)
async def test_where_there_is_no_other_it_is_told_at_once(word: str) -> None:
    async with house("vllm", breaker_failures=1) as h:
        h.engine.embeddings.once = [[REFUSALS[word][0]]] * 3
        for count in (1, 2, 3):
            assert (await h.embed("x")).status_code == REFUSALS[word][1]
            assert len(h.engine.embeddings.calls) == count
        assert (await h.embed("x")).status_code == 200
        await h.quiet()

"""The real llama.cpp server behind a gateway and two workers."""

from __future__ import annotations

from collections import Counter

import httpx
import pytest

from tests.acceptance.crowd import Ask, ask, crowd
from tests.acceptance.site import backend, run_site
from tests.rig.llama import LlamaServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NOUNS = ("sailor", "lighthouse", "storm", "harbor", "gateway")


def questions(api: str, stream: bool, model: str) -> list[Ask]:
    return [
        Ask(api, model, f"What does the {noun} do?", stream, think, temperature=0.0, max_tokens=120)
        for noun in NOUNS
        for think in (True, False)
    ]


async def test_each_answer_is_what_the_engine_itself_says(llama_server: LlamaServer) -> None:
    """1,000 chats, 64 at a time, 8 slots; each is what llama.cpp answers when asked directly and alone."""
    # A connection each: an idle one is closed by the server after some seconds.
    alone = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=llama_server.url, timeout=60, limits=alone) as client:
        direct = {}
        for what in questions("openai", True, llama_server.model):
            direct[what.prompt, what.think] = await ask(client, what)
    assert all(a.ended and (bool(a.thinking) == think) for (_, think), a in direct.items())

    model = llama_server.model
    what = [q for api in ("openai", "ollama") for s in (True, False) for q in questions(api, s, model)] * 25
    async with run_site([backend("llama", "llamacpp", llama_server.url)]) as site:
        answers = await crowd(site.url, what)
        found: Counter[str] = Counter()
        for asked, got in zip(what, answers, strict=True):
            same = direct[asked.prompt, asked.think]
            found["error"] += bool(got.error)
            found["content differs"] += got.content != same.content
            found["thinking differs"] += got.thinking.strip() != same.thinking.strip()
            found["tag in the content"] += "think>" in got.content
            found["not one end"] += got.ends != 1
        assert +found == Counter()
        assert await site.leftovers() == []
        assert site.complaints() == []
    assert llama_server.busy_slots() == 0

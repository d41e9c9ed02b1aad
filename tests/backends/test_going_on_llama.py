"""Answers of the real llama.cpp broken off in many places at temperature 0: what is gone on with is the answer that
would have come."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from backends.base import Backend
from buffer.heard import Heard, Said, can_go_on
from buffer.job import Chat, Content, Event, Finish, Message, Sampling, Usage
from tests.backends.rig import Outcome, backend, run
from tests.rig.llama import LlamaServer

USER = Message("user", "Tell me about the sea.")
TOOL = Raw(b'{"type":"function","function":{"name":"f","description":"x","parameters":{"type":"object"}}}')


def asked(*messages: Message, **fields: Any) -> Chat:
    fields.setdefault("max_tokens", 120)
    return Chat("m", list(messages) or [USER], sampling=Sampling(temperature=0, seed=1), **fields)


WAYS = {
    "plain": asked(think="off"),
    "thinking": asked(think="on"),
    "thinking by itself": asked(),
    "told how to be": asked(Message("system", "Be brief."), USER, think="off"),
    "told how to be, thinking": asked(Message("system", "Be brief."), USER, think="on"),
    "tools offered": asked(think="off", tools=[TOOL]),
    "tools offered, thinking": asked(think="on", tools=[TOOL]),
    "late in a conversation": asked(Message("user", "Hello."), Message("assistant", "Hi."), USER, think="on"),
    "begun by the client": asked(USER, Message("assistant", "The quiet")),
    "short": asked(think="off", max_tokens=30),
    "a stop text": asked(think="off", stop=["careful gateway. The careful gateway builds the quiet"]),
    "a literal prompt": Chat("m", [], prompt="The quiet harbor", max_tokens=40, sampling=Sampling(temperature=0)),
}


async def broken_off(of: Backend, chat: Chat, model: str, whole: Outcome, at: int) -> Outcome:
    """The answer with a break before the event of number ``at``."""
    heard = Heard()
    heard.add(whole.events[:at])
    assert can_go_on(chat, heard)
    rest = await run(of, chat, model=model, said=heard.said(), spent=heard.pieces)
    return Outcome([whole.events[:at], *rest.reads], rest.error)


def places(events: list[Event]) -> list[int]:
    """Behind each word."""
    first = next(at for at, event in enumerate(events) if isinstance(event, Content))
    return [at for at in range(first + 1, len(events)) if isinstance(events[at], Content)]


@pytest.mark.parametrize("way", WAYS)
async def test_nobody_sees_where_it_broke(llama_server: LlamaServer, way: str) -> None:
    chat = WAYS[way]
    async with backend(llama_server.url, "llamacpp") as of:
        whole = await run(of, chat, model=llama_server.model)
        assert whole.error is None
        assert bool(whole.thought) == ("thinking" in way or way == "late in a conversation")
        *_, end, counts = whole.events
        assert isinstance(counts, Usage)
        breaks = places(whole.events)
        assert breaks
        for at in breaks[:: max(1, len(breaks) // 6)]:
            joined = await broken_off(of, chat, llama_server.model, whole, at)
            assert joined.error is None
            assert (joined.said, joined.thought) == (whole.said, whole.thought), at
            assert [event for event in joined.events if isinstance(event, Finish)] == [end]
            rest = joined.events[-1]
            assert isinstance(rest, Usage)
            heard = Heard()
            heard.add(whole.events[:at])
            # Words that are held back for a stop text are tokens that nobody sees.
            assert counts.completion - 2 <= heard.pieces + rest.completion <= counts.completion


async def test_without_the_thinking_it_would_be_another_answer(llama_server: LlamaServer) -> None:
    """Why the thinking is sent along."""
    chat = WAYS["thinking"]
    async with backend(llama_server.url, "llamacpp") as of:
        whole = await run(of, chat, model=llama_server.model)
        others = []
        for at in places(whole.events)[:6]:
            said = Said("".join(event.text for event in whole.events[:at] if isinstance(event, Content)))
            rest = await run(of, chat, model=llama_server.model, said=said, spent=at)
            others.append(said.text + rest.said != whole.said)
    assert any(others)

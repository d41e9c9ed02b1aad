"""What is worked out once for all chats that are asked alike."""

from __future__ import annotations

import msgspec

from backends.manners import MOST_KNOWN, Manners
from backends.render_openai import manner
from backends.thinking import plan
from buffer.job import Chat, Message, Sampling
from buffer.model_records import Families

ASKED = Chat("qwen3:14b", [Message("user", "one")], front="ollama", max_tokens=5, stop=["x"])
FAMILIES = Families()


def of(manners: Manners, chat: Chat, *, parses: bool = False, context: int = 0) -> None:
    """It is what it would be if it were worked out anew."""
    chosen = plan(chat, "qwen3", "vllm", parses=parses, families=FAMILIES)
    found = manners.of(chat, "qwen3", parses=parses, context=context)
    assert found == (chosen, manner(chat, "vllm", chosen, context=context))


def test_other_words_are_asked_alike() -> None:
    manners = Manners("vllm", FAMILIES)
    other = msgspec.structs.replace(ASKED, messages=[Message("user", "two"), Message("user", "three")])
    first = manners.of(ASKED, "qwen3", parses=False, context=0)
    assert manners.of(other, "qwen3", parses=False, context=0) is first


def test_whatever_else_differs_is_asked_otherwise() -> None:
    manners = Manners("vllm", FAMILIES)
    begun = Message("assistant", "It is")
    chats = [
        ASKED,
        msgspec.structs.replace(ASKED, think="on"),
        msgspec.structs.replace(ASKED, front="openai"),
        msgspec.structs.replace(ASKED, max_tokens=900),
        msgspec.structs.replace(ASKED, sampling=Sampling(temperature=0.0)),
        msgspec.structs.replace(ASKED, extra={"chat_template_kwargs": msgspec.Raw(b'{"a":1}')}),
        msgspec.structs.replace(ASKED, think="on", messages=[begun]),
        msgspec.structs.replace(ASKED, think="on", messages=[Message("assistant", "It is", reasoning="so")]),
    ]
    for _ in range(2):
        for chat in chats:
            of(manners, chat)
            of(manners, chat, parses=True)
            of(manners, chat, context=100)


def test_clients_do_not_fill_the_memory() -> None:
    manners = Manners("vllm", FAMILIES)
    for seed in range(2 * MOST_KNOWN):
        manners.of(msgspec.structs.replace(ASKED, sampling=Sampling(seed=seed)), "qwen3", parses=False, context=0)
    assert len(manners._known) <= MOST_KNOWN

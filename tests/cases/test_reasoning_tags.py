"""Tags of thinking that the network cut anywhere, and text that only looks like them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from tests.cases.reply import Reply
from tests.cases.rig import OAI, Bench, run_bench
from tests.rig.script import DONE, Piece, Sleep, finish, role
from tests.rig.scripted import Scripted

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASKED = "capital of France?"
CUTS = {
    "in both tags": ["<th", "ink>\nlet me", " see</thi", "nk>\n\nPa", "ris"],
    "after every character": list("<think>\nlet me see</think>\n\nParis"),
    "beside the brackets": ["<", "think", ">", "\nlet me see", "<", "/", "think", ">", "\n\nParis"],
    "with the answer in one": ["<think>let me", " see</think>Paris"],
    "in the spaces": ["\n", " <thin", "k>", " ", "let me see", " \n", "</", "think>\n", "\n", "Paris"],
}
BRACKETS = {
    "in both tags": ["[TH", "INK]let me", " see[/THI", "NK]Pa", "ris"],
    "after every character": list("[THINK]\nlet me see[/THINK]\n\nParis"),
    "beside the brackets": ["[", "THINK", "]let me see[", "/THINK]", "Paris"],
}
PLAIN = {
    "a tag's beginning at the end": ["a <", " b, <thanks> and <thi"],
    "nothing but a beginning": ["<thi"],
    "a beginning that goes on otherwise": ["<thi", "rd> of all"],
    "a close tag alone, cut": ["use </thi", "nk> to close"],
    "another family's tag": ["[TH", "INK]let me see[/THINK]"],
    "a tag in the middle": ["write <th", "ink> like this"],
    "less than and nothing": ["<"],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(Scripted("openai", kind="vllm", models=[OAI, "magistral-small"])) as found:
        yield found


def stream(pieces: Sequence[str]) -> list[Piece]:
    """One segment each, 20 ms apart; 2 ms where there are many."""
    pause = Sleep(0.02 if len(pieces) < 15 else 0.002)
    spread: list[Piece] = [role()]
    for piece in pieces:
        spread += [piece, pause]
    return [*spread, finish(), DONE]


def separated(reply: Reply) -> None:
    assert reply.thinking.strip() == "let me see"
    assert reply.content.strip() == "Paris"


@pytest.mark.parametrize("cut", CUTS)
async def test_thinking_is_told_from_the_answer_for_ollama_clients(bench: Bench, cut: str) -> None:
    bench.oai.once.append(stream(CUTS[cut]))
    reply = await bench.chat("ollama", OAI, ASKED, think=True)
    separated(reply)
    messages = [line["message"] for line in reply.lines()]
    for message in messages:
        for text in (message.get("content", ""), message.get("thinking", "")):
            assert not any(rest in text for rest in ("<th", "ink>", "</thi", "nk>")), message
    last_thought = max(i for i, message in enumerate(messages) if message.get("thinking"))
    first_word = min(i for i, message in enumerate(messages) if message["content"])
    assert last_thought < first_word
    assert (reply.lines()[-1]["done"], reply.lines()[-1]["done_reason"]) == (True, "stop")


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize("cut", CUTS)
async def test_for_openai_clients_it_is_told_apart_or_left_alone(bench: Bench, cut: str, stream_it: bool) -> None:
    """A tag that is half removed is neither."""
    bench.oai.once.append(stream(CUTS[cut]))
    reply = await bench.chat("openai", OAI, ASKED, stream=stream_it)
    if reply.content != "".join(CUTS[cut]):
        separated(reply)


@pytest.mark.parametrize("cut", BRACKETS)
@pytest.mark.parametrize("api", ["ollama", "openai"])
async def test_a_family_with_tags_of_its_own(bench: Bench, api: str, cut: str) -> None:
    bench.oai.once.append(stream(BRACKETS[cut]))
    separated(await bench.chat(api, "magistral-small", ASKED, stream=True))


@pytest.mark.parametrize("api", ["ollama", "openai"])
@pytest.mark.parametrize("text", PLAIN)
async def test_what_is_no_tag_stays_whole(bench: Bench, text: str, api: str) -> None:
    """Also what was held back at the end, as the beginning of a tag that never came."""
    bench.oai.once.append(stream(PLAIN[text]))
    reply = await bench.chat(api, OAI, ASKED, stream=True, think=True if api == "ollama" else ...)
    assert reply.content == "".join(PLAIN[text])
    assert not reply.thinking


@pytest.mark.parametrize("rest", ["let me see", "let me see </thi", "let me see <"])
async def test_an_answer_that_ends_inside_its_thinking(bench: Bench, rest: str) -> None:
    """Nothing of it is lost, and none of it becomes the answer."""
    bench.oai.once.append([role(), "<thi", "nk>", rest, finish("length"), DONE])
    reply = await bench.chat("ollama", OAI, ASKED, think=True)
    assert (reply.thinking, reply.content) == (rest, "")
    assert reply.lines()[-1]["done_reason"] == "length"

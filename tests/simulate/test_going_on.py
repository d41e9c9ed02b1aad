"""Asked to go on with an answer, the simulated engine says the rest of it: whoever reads both reads one text."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from simulate.going_on import Begun, split
from simulate.plan import Wish, plan_answer
from tests.simulate.serving import served

QUESTION = [{"role": "user", "content": "Tell me something."}]
WISH = Wish("question", "p", thinks=False)
WHOLE = plan_answer(WISH)
TEXT = WHOLE.span(0, WHOLE.tokens)[1]


def wished(begun: str, **more: Any) -> Wish:
    return Wish("question", "p", **{"thinks": False, "begun": begun, **more})


@pytest.mark.parametrize("at", range(1, len(TEXT), 7))
def test_exactly_where_the_beginning_stops(at: int) -> None:
    plan = plan_answer(wished(TEXT[:at]))
    pieces = [plan.span(token, token + 1) for token in range(plan.tokens)]
    assert "".join(said for _, said in pieces) == plan.span(0, plan.tokens)[1] == TEXT[at:]
    assert not any(thought for thought, _ in pieces)
    assert plan.finish == "stop"


@pytest.mark.parametrize("token", range(1, WHOLE.tokens, 5))
def test_no_token_counts_twice(token: int) -> None:
    assert plan_answer(wished(WHOLE.span(0, token)[1])).tokens == WHOLE.tokens - token


def test_lengths_are_of_the_whole() -> None:
    begun = WHOLE.span(0, 10)[1]
    cut = plan_answer(wished(begun, max_tokens=5))
    assert (cut.tokens, cut.finish, cut.span(0, 5)) == (5, "length", WHOLE.span(10, 15))
    assert plan_answer(wished(begun, natural_tokens=30)).tokens == 20
    assert plan_answer(wished(begun, natural_tokens=30, thinks=True)).tokens == 10, "ten were thinking"
    endless = plan_answer(wished(begun, ignore_eos=True, max_tokens=900))
    assert (endless.tokens, endless.finish) == (900, "length")
    stopped = plan_answer(wished(begun, stop=("Line 2",)))
    assert begun + stopped.span(0, stopped.tokens)[1] == TEXT[: TEXT.index("Line 2")]


def test_of_a_whole_answer_there_is_no_rest() -> None:
    plan = plan_answer(wished(TEXT))
    assert (plan.span(0, plan.tokens), plan.tokens, plan.finish, plan.stop_reason) == (("", ""), 1, "stop", None)


@pytest.mark.parametrize(("begun", "between"), [("Once upon", " "), ("Once upon ", ""), ("Thus", " "), ("\n", "")])
def test_behind_a_strange_beginning_a_sentence_begins(begun: str, between: str) -> None:
    plan = plan_answer(wished(begun))
    assert (plan.span(0, plan.tokens)[1], plan.tokens) == (between + TEXT, WHOLE.tokens)
    further = begun + plan.span(0, 20)[1]
    assert (
        further + plan_answer(wished(further)).span(0, 999)[1].split(" Line")[0]
        == begun + between + TEXT.split(" Line")[0]
    )


def test_a_beginning_is_what_the_answerer_said_last() -> None:
    begun = {"role": "assistant", "content": "This", "reasoning": "hm"}
    assert split([*QUESTION, begun]) == (QUESTION, Begun("This", "hm"))
    for last in (*QUESTION, {**begun, "tool_calls": [{}]}, {**begun, "content": None}, {**begun, "content": ""}):
        assert split([last]) == ([last], Begun())
    assert split([]) == ([], Begun())


async def openai(client: httpx.AsyncClient, *begun: dict[str, Any], **more: Any) -> tuple[str, str, dict[str, int]]:
    """Text, reason and counts."""
    fields = {"messages": [*QUESTION, *begun], "chat_template_kwargs": {"enable_thinking": False}, **more}
    answer = await client.post("/v1/chat/completions", json=fields)
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    return choice["message"]["content"], choice["finish_reason"], answer.json()["usage"]


GO_ON = {"continue_final_message": True, "add_generation_prompt": False}


async def test_vllm_goes_on_where_it_is_told_to() -> None:
    async with served() as url, httpx.AsyncClient(base_url=url) as client:
        text, _, usage = await openai(client)
        first, reason, spent = await openai(client, max_tokens=20)
        assert (reason, spent["completion_tokens"]) == ("length", 20)
        begun = {"role": "assistant", "content": first}
        second, reason, counts = await openai(client, begun, **GO_ON)
        assert (first + second, reason) == (text, "stop")
        assert counts["completion_tokens"] == usage["completion_tokens"] - 20
        assert counts["prompt_tokens"] == usage["prompt_tokens"] + 20
        strange = {"role": "assistant", "content": "Once"}
        assert (await openai(client, strange, **GO_ON))[0] == " " + text
        assert not text.startswith((await openai(client, begun))[0][:60]), "untold, it is an earlier turn"
        thought = {**begun, "reasoning": "hm, what now?"}
        assert (await openai(client, thought, **GO_ON))[2]["prompt_tokens"] > counts["prompt_tokens"]
        both = {"messages": [*QUESTION, begun], "continue_final_message": True}
        assert (await client.post("/v1/chat/completions", json=both)).status_code == 400


async def test_vllm_goes_on_in_a_stream_and_in_another_process() -> None:
    async with served() as url, httpx.AsyncClient(base_url=url) as client:
        text = (await openai(client))[0]
    async with served() as url, httpx.AsyncClient(base_url=url) as client:
        fields = {"messages": [*QUESTION, {"role": "assistant", "content": text[:50]}], "stream": True, **GO_ON}
        answer = await client.post("/v1/chat/completions", json=fields)
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [event["choices"][0]["delta"] for event in events]
        assert text[:50] + "".join(delta.get("content", "") for delta in deltas) == text
        assert not any("reasoning" in delta for delta in deltas)


async def test_ollama_goes_on_unasked() -> None:
    async with served("rtx4090-ollama") as url, httpx.AsyncClient(base_url=url) as client:

        async def ask(*begun: dict[str, Any], **options: Any) -> dict[str, Any]:
            fields = {"model": "simulated-qwen3:14b", "messages": [*QUESTION, *begun], "think": False, "stream": False}
            found: dict[str, Any] = (await client.post("/api/chat", json={**fields, "options": options})).json()
            return found

        whole, first = await ask(), await ask(num_predict=20)
        begun = {"role": "assistant", "content": first["message"]["content"]}
        second = await ask(begun)
        assert begun["content"] + second["message"]["content"] == whole["message"]["content"]
        assert second["eval_count"] == whole["eval_count"] - 20
        assert second["prompt_eval_count"] == whole["prompt_eval_count"] + 20
        assert (await openai(client, begun, reasoning_effort="none"))[0] == second["message"]["content"]

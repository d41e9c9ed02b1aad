"""OpenAI's client for Python: text that goes on from a prompt."""

from __future__ import annotations

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.openai_chats import CLIENT
from tests.conformance.table import row
from tests.rig.engine import expected

COMPLETIONS = "POST /v1/completions"


@row(CLIENT, "completions.create", COMPLETIONS)
async def completion(b: Bench) -> None:
    answer = await b.openai.completions.create(model=b.model, prompt=PROMPT, max_tokens=50, temperature=0)
    assert answer.object == "text_completion"
    if b.real:
        assert answer.choices[0].text
    else:
        assert answer.choices[0].text == expected(PROMPT)
    assert answer.usage
    assert answer.usage.completion_tokens > 0


@row(CLIENT, "completions.create(stream=True)", COMPLETIONS)
async def completion_stream(b: Bench) -> None:
    prompts = [PROMPT, "marker:def words:2"]
    texts, reasons = ["", ""], ["", ""]
    async for chunk in await b.openai.completions.create(
        model=b.model, prompt=prompts, max_tokens=50, temperature=0, stream=True
    ):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] += choice.finish_reason or ""
    assert all(texts)
    assert b.real or texts == [expected(prompt) for prompt in prompts]
    assert set(reasons) <= {"stop", "length"}


@row(CLIENT, "completions.create(suffix=…)", COMPLETIONS, refused={"real"})
async def completion_suffix(b: Bench) -> None:
    answer = await b.openai.completions.create(
        model=b.model, prompt=PROMPT, suffix="the end", max_tokens=50, temperature=0
    )
    assert answer.choices[0].text == expected(PROMPT)


@row(CLIENT, "completions.create(prompt of token ids)", COMPLETIONS, refused={"ollama"})
async def completion_tokens(b: Bench) -> None:
    answer = await b.openai.completions.create(model=b.model, prompt=[5, 6, 7], max_tokens=5)
    assert answer.usage
    assert answer.usage.completion_tokens > 0

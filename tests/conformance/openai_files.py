"""OpenAI's client for Python: files and batches."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

from openai.types import Batch, FileObject

from tests.conformance.bench import PROMPT, Bench
from tests.conformance.openai_chats import CLIENT
from tests.conformance.table import row

FILES = "/v1/files"
BATCHES = "/v1/batches"
OPEN = ("validating", "in_progress", "finalizing", "cancelling")
Endpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]


async def upload(b: Bench, endpoint: Endpoint = "/v1/chat/completions", *bodies: dict[str, Any]) -> FileObject:
    """A file with a line for each of these."""
    lines = [
        {"custom_id": str(number), "method": "POST", "url": endpoint, "body": {"model": b.model} | body}
        for number, body in enumerate(bodies)
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return await b.openai.files.create(file=("lines.jsonl", data), purpose="batch")


async def ended(b: Bench, endpoint: Endpoint, *bodies: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What became of the lines of a batch over these: the answers by ``custom_id``, and the errors."""
    file = await upload(b, endpoint, *bodies)
    batch = await b.openai.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")
    while batch.status in OPEN:
        await asyncio.sleep(0.05)
        batch = await b.openai.batches.retrieve(batch.id)
    assert batch.status == "completed", batch.errors
    return await lines(b, batch.output_file_id), await lines(b, batch.error_file_id)


async def lines(b: Bench, id: str | None) -> dict[str, Any]:
    if id is None:
        return {}
    text = (await b.openai.files.content(id)).text
    found = [json.loads(line) for line in text.splitlines()]
    assert len({line["custom_id"] for line in found}) == len(found)
    return {line["custom_id"]: line["response"]["body"] for line in found}


@row(CLIENT, "files.create", f"POST {FILES}")
async def create(b: Bench) -> None:
    file = await upload(b, "/v1/chat/completions", {})
    assert (file.object, file.purpose, file.status, file.filename) == ("file", "batch", "processed", "lines.jsonl")


@row(CLIENT, "files.list", f"GET {FILES}")
async def listed(b: Bench) -> None:
    files = [await upload(b) for _ in range(3)]
    found = [file.id async for file in b.openai.files.list(limit=2, purpose="batch")]
    assert found[:3] == [file.id for file in files[::-1]]


@row(CLIENT, "files.retrieve", f"GET {FILES}/{{id}}")
async def retrieve(b: Bench) -> None:
    file = await upload(b)
    assert await b.openai.files.retrieve(file.id) == file


@row(CLIENT, "files.wait_for_processing", f"GET {FILES}/{{id}}")
async def wait(b: Bench) -> None:
    file = await upload(b)
    assert await b.openai.files.wait_for_processing(file.id) == file


@row(CLIENT, "files.content", f"GET {FILES}/{{id}}/content")
async def content(b: Bench) -> None:
    file = await upload(b, "/v1/chat/completions", {"text": "\u2028ä"})
    data = (await b.openai.files.content(file.id)).content
    assert (len(data), json.loads(data)["body"]["text"]) == (file.bytes, "\u2028ä")


@row(CLIENT, "files.retrieve_content", f"GET {FILES}/{{id}}/content")
async def old_content(b: Bench) -> None:
    file = await upload(b, "/v1/chat/completions", {})
    with_no_name: Any = b.openai.files.retrieve_content
    assert json.loads(await with_no_name(file.id))["custom_id"] == "0"


@row(CLIENT, "files.delete", f"DELETE {FILES}/{{id}}")
async def delete(b: Bench) -> None:
    file = await upload(b)
    assert (await b.openai.files.delete(file.id)).deleted
    assert file.id not in [one.id async for one in b.openai.files.list()]


@row(CLIENT, "batches.create(chats)", f"POST {BATCHES}")
async def chats(b: Bench) -> None:
    good = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 20, "reasoning_effort": "none"}
    answers, errors = await ended(b, "/v1/chat/completions", good, {"messages": "none"}, good)
    assert (sorted(answers), sorted(errors)) == (["0", "2"], ["1"])
    b.says(answers["2"]["choices"][0]["message"]["content"])
    assert errors["1"]["error"]["message"]


@row(CLIENT, "batches.create(completions)", f"POST {BATCHES}")
async def completions(b: Bench) -> None:
    answers, errors = await ended(b, "/v1/completions", {"prompt": PROMPT, "max_tokens": 20})
    assert (list(answers), errors) == (["0"], {})
    assert answers["0"]["choices"][0]["text"]


@row(CLIENT, "batches.create(embeddings)", f"POST {BATCHES}")
async def embeddings(b: Bench) -> None:
    answers, errors = await ended(b, "/v1/embeddings", {"model": b.embedder, "input": ["the sea", "a lamp"]})
    assert (list(answers), errors) == (["0"], {})
    assert len(answers["0"]["data"]) == 2


@row(CLIENT, "batches.retrieve", f"GET {BATCHES}/{{id}}")
async def stands(b: Bench) -> None:
    begun = await begin(b)
    told = await b.openai.batches.retrieve(begun.id)
    assert (told.id, told.metadata, told.expires_at) == (begun.id, {"a": "b"}, begun.created_at + 86_400)


@row(CLIENT, "batches.list", f"GET {BATCHES}")
async def batches(b: Bench) -> None:
    begun = [(await begin(b)).id for _ in range(3)]
    assert [one.id async for one in b.openai.batches.list(limit=2)][:3] == begun[::-1]


@row(CLIENT, "batches.cancel", f"POST {BATCHES}/{{id}}/cancel")
async def cancel(b: Bench) -> None:
    begun = await begin(b)
    batch = await b.openai.batches.cancel(begun.id)
    while batch.status in OPEN:
        await asyncio.sleep(0.05)
        batch = await b.openai.batches.retrieve(begun.id)
    assert batch.status == "cancelled"


async def begin(b: Bench) -> Batch:
    """One with so much to do that it does not end by itself at once."""
    chat = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 20}
    file = await upload(b, "/v1/chat/completions", *[chat] * 200)
    return await b.openai.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"}
    )

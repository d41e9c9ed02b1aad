"""The official clients of the APIs that agents speak."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai

from tests.gateway.rig import MODEL, PROMPT

PATHS = ["/v1/messages", "/v1/responses"]


def body(path: str, model: str = MODEL, **more: Any) -> dict[str, Any]:
    if path == "/v1/messages":
        return {"model": model, "max_tokens": 64, "messages": PROMPT, **more}
    return {"model": model, "input": "Hello", **more}


@asynccontextmanager
async def clients(url: str) -> AsyncIterator[tuple[anthropic.AsyncAnthropic, openai.AsyncOpenAI]]:
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as claude,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as gpt,
    ):
        yield claude, gpt

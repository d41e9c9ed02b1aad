"""An installation in front of one kind of back end, and the official clients of Python on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anthropic
import ollama
import openai

from tests.acceptance.site import backend, run_site
from tests.rig.engine import expected
from tests.rig.llama import run_llama
from tests.rig.processes import run_command
from tests.rig.scripted import Scripted
from tests.rig.strict import judge

COLUMNS: Mapping[str, str] = {
    "vllm": "vLLM",
    "llamacpp": "llama.cpp",
    "openai": "another OpenAI server",
    "ollama": "Ollama",
    "real": "llama.cpp, the real one",
}
"""The kinds of back end by key. All but the last are scripted."""

MODELS = {
    "vllm": "Qwen/Qwen3-8B",
    "llamacpp": "qwen3-1.7b",
    "openai": "qwen3-4b",
    "ollama": "qwen3:0.6b",
    "real": "tiny-qwen3",
}
PROMPT = "marker:abc words:4 thoughts:2"
THOUGHTS = "thought 1 thought 2 "


@dataclass
class Bench:
    key: str
    url: str
    model: str
    embedder: str
    openai: openai.AsyncOpenAI
    ollama: ollama.AsyncClient
    anthropic: anthropic.AsyncAnthropic

    @property
    def real(self) -> bool:
        """The engine is none of ours: it says what it likes."""
        return self.key == "real"

    def says(self, text: str | None, prompt: str = PROMPT) -> None:
        """Checks an answer's words."""
        if self.real:
            assert text
            assert "think>" not in text
        else:
            assert text == expected(prompt), text

    def thinks(self, text: str | None, *, asked: bool = True) -> None:
        """Checks an answer's thinking."""
        if self.real:
            assert bool(text) is asked
        else:
            assert (text or "") == (THOUGHTS if asked else ""), text


@asynccontextmanager
async def run_bench(key: str) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        model = embedder = MODELS[key]
        if key == "real":
            chats = stack.enter_context(run_llama(slots=4, context=2048, model=model))
            embedder = "tiny-embed"
            embeds = stack.enter_context(run_llama(slots=2, context=512, model=embedder, embeddings=True))
            backends = [backend("chats", "llamacpp", chats.url), backend("embeddings", "llamacpp", embeds.url)]
        else:
            engine = await stack.enter_async_context(_engine(key, model))
            backends = [backend("engine", key, engine.url)]
        site = await stack.enter_async_context(run_site(backends, workers=1))
        await stack.enter_async_context(run_command("batch-worker", environment=site.environment))
        gpt = openai.AsyncOpenAI(base_url=f"{site.url}/v1", api_key="none", max_retries=0, timeout=60)
        claude = anthropic.AsyncAnthropic(base_url=site.url, api_key="none", max_retries=0, timeout=60)
        for client in (gpt, claude):
            stack.push_async_callback(client.close)
        yield Bench(key, site.url, model, embedder, gpt, ollama.AsyncClient(site.url, timeout=60), claude)


def _engine(key: str, model: str) -> Scripted:
    """One that judges what it is sent."""
    engine = Scripted("ollama" if key == "ollama" else "openai", kind=key, models=[model], judge=judge(key, [model]))
    if key == "llamacpp":
        engine.pages["/props"]["modalities"] = {"vision": True, "audio": False}
    if key == "ollama":
        engine.pages["/api/show"]["capabilities"] += ["vision", "insert", "embedding"]
    return engine

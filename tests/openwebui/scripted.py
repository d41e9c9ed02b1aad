"""Open WebUI before engines that say what a test tells them, and remember what they were sent."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.acceptance.site import backend, run_site
from tests.openwebui.front import PREFIX, run_front
from tests.openwebui.installation import Running
from tests.rig.scripted import Scripted

KINDS = ("ollama", "vllm")
EMBEDDER = "embed:latest"
QUEUE_LIMIT = 2
CHUNK_CHARS = 200
GATEWAY = {"DOUBLEBUFFER_QUEUE_LIMIT": str(QUEUE_LIMIT), "DOUBLEBUFFER_BREAKER_FAILURES": "1000"}
"""A queue that is full soon, and no pause after the errors that tests have engines answer."""
NO_TASKS = {f"ENABLE_{task}_GENERATION": "false" for task in ("TITLE", "FOLLOW_UP", "TAGS")}
"""Every request that an engine gets is one that a test has asked for."""


@dataclass(frozen=True, slots=True)
class Bench(Running):
    engines: dict[str, Scripted]
    """By kind."""

    def reset(self) -> None:
        for engine in self.engines.values():
            engine.script = None
            engine.once.clear()
            engine.requests.clear()
            engine.embeddings.calls.clear()
            engine.embeddings.delay_s = 0.0
            engine.shelf.held = ()


def name_of(connection: str, kind: str) -> str:
    """What Open WebUI calls an engine's model by a connection. Only Ollama's API puts a tag where there is none."""
    if connection == "ollama":
        return f"m-{kind}:latest"
    return f"{PREFIX}.m-ollama:latest" if kind == "ollama" else f"{PREFIX}.m-vllm"


def documents(gateway: str) -> dict[str, str]:
    """The settings by which Open WebUI has its documents embedded by the gateway."""
    return {
        "RAG_EMBEDDING_ENGINE": "ollama",
        "RAG_OLLAMA_BASE_URL": gateway,
        "RAG_EMBEDDING_MODEL": EMBEDDER,
        "CHUNK_SIZE": str(CHUNK_CHARS),
        "CHUNK_OVERLAP": "0",
    }


@contextlib.asynccontextmanager
async def run_bench() -> AsyncIterator[Bench]:
    async with (
        Scripted("ollama", kind="ollama", models=["m-ollama:latest", EMBEDDER]) as ollama,
        Scripted("openai", kind="vllm", models=["m-vllm"]) as vllm,
    ):
        engines = {"ollama": ollama, "vllm": vllm}
        backends = [backend(kind, kind, engine.url) for kind, engine in engines.items()]
        async with (
            run_site(backends, workers=2, settings=GATEWAY, engines=engines) as site,
            run_front(site.url, documents(site.url) | NO_TASKS) as front,
        ):
            yield Bench(front, site, engines)

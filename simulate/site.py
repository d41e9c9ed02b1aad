"""What both APIs answer from: a profile, the models it pretends to serve, and the engine's driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from simulate.cost import EngineKind, Profile
from simulate.driver import Driver
from simulate.ollama import OllamaEngine
from simulate.vllm import VllmEngine

MODEL_PREFIX = "simulated-"
DEFAULT_MODEL = "simulated-qwen3:14b"
OWNER = "doublebuffer-simulated"
VERSION = "0.0.0-simulated"


@dataclass
class Site:
    profile: Profile
    models: Sequence[str]
    driver: Driver
    ignore_eos: bool = False
    """Every answer goes on to its ``max_tokens``, as if each request said so."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    expires_at: dict[str, datetime] = field(default_factory=dict)
    """Until when a model would stay in an Ollama's memory. Told by ``/api/ps``; nothing is unloaded for it."""

    @property
    def kind(self) -> EngineKind:
        return self.profile.kind

    @property
    def fingerprint(self) -> str:
        return f"fp_simulated_{self.profile.name}"

    @property
    def context_length(self) -> int:
        """Longest prompt and answer together, in tokens."""
        engine = self.driver.engine
        return engine.context_length if isinstance(engine, VllmEngine) else self.profile.context_length

    def find(self, name: str) -> str | None:
        """A model by the name that a client used for it: case and the tag ``latest`` do not matter."""
        wanted = name.lower().removesuffix(":latest")
        return next((model for model in self.models if model.lower().removesuffix(":latest") == wanted), None)

    def unload(self) -> None:
        """Take an Ollama's model out of memory, if nothing runs and nothing waits."""
        engine = self.driver.engine
        if isinstance(engine, OllamaEngine) and not engine.waiting:
            engine.unload()

    def loaded(self) -> list[tuple[str, int]]:
        """Models in memory, and the context length of each."""
        engine = self.driver.engine
        if isinstance(engine, OllamaEngine):
            return [engine.loaded] if engine.loaded is not None else []
        return [(model, self.context_length) for model in self.models]


def check_models(models: Sequence[str]) -> None:
    """Raises ``ValueError`` on names that could be taken for a real model's."""
    if not models:
        raise ValueError("a simulated engine needs a model's name")
    for model in models:
        if not model.startswith(MODEL_PREFIX) or model == MODEL_PREFIX:
            raise ValueError(f"a simulated model's name begins with {MODEL_PREFIX!r}: {model!r}")

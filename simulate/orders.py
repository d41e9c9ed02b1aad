"""Which order of work a profile has."""

from __future__ import annotations

from simulate.cost import Profile
from simulate.engine import BLOCK_TOKENS, Engine
from simulate.ollama import OllamaEngine
from simulate.vllm import VllmEngine


def make_engine(profile: Profile, *, block_tokens: int = BLOCK_TOKENS, loaded: str = "") -> Engine:
    """The engine of a profile. ``loaded``: the model that an Ollama has in memory from the start."""
    if profile.kind == "vllm":
        return VllmEngine(profile, block_tokens=block_tokens)
    return OllamaEngine(profile, block_tokens=block_tokens, loaded=loaded)

"""What a seed decides ahead."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from buffer.backend import BackendSpec

MODELS = ("small", "large", "odd")


@dataclass(frozen=True)
class Plan:
    """What a seed decides ahead."""

    models: dict[str, tuple[str, ...]]
    """Back end → what it serves."""
    specs: dict[str, BackendSpec]
    faulty: bool
    jobs: int
    max_wait_s: float
    share: int
    """Of one owner of two; 0: they have none."""
    splits: frozenset[str]
    """Back ends that read prompts in pieces."""


def plan(rng: Random, *, faulty: bool, jobs: int) -> Plan:
    models: dict[str, tuple[str, ...]] = {"b1": ("small", "large"), "b2": ("large", "odd"), "b3": MODELS}
    if rng.random() < 0.3:
        models = {"b1": MODELS}
    odd = rng.choice(("b1", "b2", "", "")) if len(models) > 1 else ""
    specs = {
        name: BackendSpec(
            name=name,
            # Those of this kind cannot go on with what another has begun.
            kind="openai" if name == odd else "vllm",
            url="http://127.0.0.1:1",
            max_in_flight=rng.choice((1, 1, 2, 2, 3, 5)),
            kv_tokens=rng.choice((None, 70, 130)),
        )
        for name in models
    }
    return Plan(
        models,
        specs,
        faulty,
        jobs,
        max_wait_s=rng.choice((1.0, 3.0, 8.0, 30.0)),
        share=rng.choice((0, 0, 300, 600)),
        splits=frozenset(name for name in models if rng.random() < 0.5),
    )

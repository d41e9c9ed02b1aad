"""What one step of an engine costs: the three profiles and the formula that the simulated back end runs on.

Pure arithmetic. The numbers are those of Qwen3-14B in eight bits on two cards: a model of an engine, never a
measurement of one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

EngineKind = Literal["vllm", "ollama"]


@dataclass(frozen=True, slots=True)
class Profile:
    """An engine on a card. Times in seconds, lengths in tokens."""

    name: str
    kind: EngineKind
    base_s: float
    """Least time of a step: the weights are read once."""
    per_sequence_s: float
    """For each sequence that decodes in the step."""
    per_context_token_s: float
    """For each token of context of the sequences that decode."""
    rate: float
    """Tokens a second that the arithmetic sustains, prefill and decode together."""
    attention_s: float
    """For each pair of a prefill token and a token before it."""
    kv_tokens: int
    """Tokens of KV. 0: ``slots * context_length``, reserved (Ollama)."""
    step_budget: int
    """Most tokens, prefill and decode together, of one step."""
    slots: int
    """Most sequences that run side by side."""
    fixed_s: float
    """From a request's arrival to the engine's first look at it."""
    context_length: int
    """Longest prompt and answer together. For Ollama, ``num_ctx``."""

    def kv_capacity(self) -> int:
        """Tokens of KV that the engine keeps."""
        return self.kv_tokens or self.slots * self.context_length


RTX4090_OLLAMA = Profile(
    name="rtx4090-ollama",
    kind="ollama",
    base_s=17.5e-3,
    per_sequence_s=0.60e-3,
    per_context_token_s=0.30e-6,
    rate=4_500.0,
    attention_s=1.0e-8,
    kv_tokens=0,
    step_budget=512,
    slots=1,
    fixed_s=20e-3,
    context_length=8_192,
)

RTX4090_VLLM = Profile(
    name="rtx4090-vllm",
    kind="vllm",
    base_s=17.3e-3,
    per_sequence_s=0.10e-3,
    per_context_token_s=0.22e-6,
    rate=6_500.0,
    attention_s=6.5e-9,
    kv_tokens=39_000,
    step_budget=2_048,
    slots=32,
    fixed_s=12e-3,
    context_length=32_768,
)

H100_VLLM = Profile(
    name="h100-vllm",
    kind="vllm",
    base_s=6.5e-3,
    per_sequence_s=0.05e-3,
    per_context_token_s=0.07e-6,
    rate=28_000.0,
    attention_s=1.6e-9,
    kv_tokens=334_000,
    step_budget=2_048,
    slots=32,
    fixed_s=6e-3,
    context_length=131_072,
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (RTX4090_OLLAMA, RTX4090_VLLM, H100_VLLM)}


def profile_named(name: str, *, slots: int | None = None, num_ctx: int | None = None) -> Profile:
    """A profile by name, with other slots or another context length if given.

    Raises ``ValueError`` on an unknown name or a bad number.
    """
    profile = PROFILES.get(name)
    if profile is None:
        raise ValueError(f"unknown profile {name!r}; there are {', '.join(PROFILES)}")
    if slots is not None:
        profile = replace(profile, slots=slots)
    if num_ctx is not None:
        profile = replace(profile, context_length=num_ctx)
    if profile.slots < 1 or profile.slots >= profile.step_budget:
        raise ValueError(f"slots of {name} must be between 1 and {profile.step_budget - 1}")
    if profile.context_length < 4:
        raise ValueError(f"the context length of {name} must be at least 4")
    return profile


def step_s(profile: Profile, *, prefill: int, decoding: int, context: int, attention: float) -> float:
    """Seconds of one step.

    ``prefill``: prompt tokens read in it; ``decoding``: sequences that get one token each; ``context``: the sum of
    these sequences' contexts; ``attention``: the sum over the prefill chunks of ``attention_of(chunk, done)``.
    """
    return (
        max(profile.base_s, (prefill + decoding) / profile.rate)
        + profile.per_sequence_s * decoding
        + profile.per_context_token_s * context
        + profile.attention_s * attention
    )


def attention_of(chunk: int, done: int) -> float:
    """Pairs of tokens that a prefill chunk attends to, ``done`` tokens of its prompt being read already."""
    return chunk * (done + chunk / 2)


def prefill_s(profile: Profile, tokens: int) -> float:
    """Seconds to read a prompt of ``tokens`` alone, in chunks of the step budget."""
    total = 0.0
    done = 0
    while done < tokens:
        chunk = min(profile.step_budget, tokens - done)
        total += step_s(profile, prefill=chunk, decoding=0, context=0, attention=attention_of(chunk, done))
        done += chunk
    return total


ANCHOR_PROMPT, ANCHOR_OUTPUT = 256, 128
ANCHOR_BASE_S = 16.5e-3
ANCHOR_MEASURED: dict[int, float] = {4: 210.0, 8: 377.0, 16: 644.0, 32: 975.0}
"""Clients → tokens a second in all, as others measured them: vLLM, an RTX 4090, a model with the same bytes a step."""
ANCHOR_MODEL: dict[int, float] = {4: 222.0, 8: 409.0, 16: 696.0, 32: 1050.0}
"""The same of the cost model with ``ANCHOR_BASE_S``."""


def anchor_profile() -> Profile:
    """The profile that is held against ``ANCHOR_MEASURED``."""
    return replace(RTX4090_VLLM, base_s=ANCHOR_BASE_S)


def closed_loop_tokens_per_s(profile: Profile, clients: int, *, prompt: int, output: int) -> float:
    """Output tokens a second of ``clients`` that each send one request after the other, their prompts apart in time.

    A closed form for the case without waiting (``clients`` at most the slots and at most ``output``): in the time of
    one request there is one prefill step for each client, beside which the others decode, and plain decode steps for
    the rest.
    """
    if not 1 <= clients <= min(profile.slots, output):
        raise ValueError("clients must be between 1 and the lesser of the slots and the output")
    mean_context = prompt + output // 2
    beside = clients - 1
    reading = step_s(
        profile, prefill=prompt, decoding=beside, context=beside * mean_context, attention=attention_of(prompt, 0)
    )
    writing = step_s(profile, prefill=0, decoding=clients, context=clients * mean_context, attention=0.0)
    return clients * output / (clients * reading + (output - clients) * writing + profile.fixed_s)

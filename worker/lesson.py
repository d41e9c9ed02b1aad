"""What one whole answer teaches of its back end, and how far what was expected of it was off."""

from __future__ import annotations

from buffer.job import Usage
from buffer.prompt_size import text_size
from buffer.telemetry import Telemetry
from policy.estimate import PREFILL_RATE, prefill_s
from policy.learned import LEAST_PREFILL, LEAST_PROMPT
from worker.hand import Hand

READ_ANEW = 0.9
"""An engine that does not tell what it had in its cache is believed to have read all of a prompt anew where so much of
it is thought to be new."""


def learn(hand: Hand, telemetry: Telemetry) -> None:
    """From an attempt that came to its end, while its stream has not been put away."""
    engine, job, usage, chat = hand.engine, hand.job, hand.usage, hand.chat
    model = engine.upstream(job.model)
    if usage is None or model is None or hand.begun:
        return
    learned = engine.learning.of(model)
    if usage.prompt >= LEAST_PROMPT and (size := text_size(chat)) is not None:
        learned.prompt(usage.prompt, *size)
    if usage.completion:
        learned.answer(job.lane, -(-usage.completion // max(1, chat.n)), chat.max_tokens)
    if hand.first_at is None:
        return
    if chat.n == 1:
        wrote_s = usage.completion_ns / 1e9 if usage.completion_ns else engine.clock() - hand.first_at
        learned.writing(usage.completion - 1, wrote_s)
    if usage.prompt < LEAST_PREFILL:
        return
    alone = engine.learning.was_alone(hand.stream)
    read_s = _read_s(hand, usage, alone=alone)
    tokens = _read_anew(hand, usage)
    if read_s is None or tokens < LEAST_PREFILL:
        return
    if alone and not job.upto:
        predicted_s = prefill_s(job.prefill, learned.prefill_rate or PREFILL_RATE)
        telemetry.estimated("prefill_seconds", predicted_s, read_s)
    learned.prefill(tokens, read_s, alone=alone)


def _read_s(hand: Hand, usage: Usage, *, alone: bool) -> float | None:
    """How long the engine read. None: what was seen of it does not tell."""
    if usage.prompt_ns:
        return usage.prompt_ns / 1e9
    if not alone or hand.job.upto or hand.first_at is None:
        return None
    return hand.first_at - hand.started_at


def _read_anew(hand: Hand, usage: Usage) -> int:
    """Tokens of the prompt that it read; 0: nobody knows."""
    if usage.cached is not None:
        return usage.prompt - usage.cached
    if hand.job.upto:
        return 0
    return usage.prompt if hand.job.prefill >= READ_ANEW * hand.job.prompt > 0 else 0

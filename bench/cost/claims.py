"""What Doublebuffer is held to, as ratios within one run: no figure of one machine says anything about another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.cost.result import Result
from bench.cost.rows import EMBEDDED, FLEET
from bench.cost.waiting import FEW, MANY

OURS = "doublebuffer"


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    value: float
    """NaN: it was not measured."""
    bound: float
    least: bool = False
    """``bound`` is the least that will do, not the most."""

    @property
    def holds(self) -> bool | None:
        if math.isnan(self.value):
            return None
        return self.value >= self.bound if self.least else self.value <= self.bound

    def told(self) -> str:
        sign = "≥" if self.least else "≤"
        verdict = {None: "not measured", True: "holds", False: "does not hold"}[self.holds]
        value = "–" if math.isnan(self.value) else f"{self.value:.2f}"
        return f"| {self.text} | {value} | {sign} {self.bound:g} | {verdict} |"


def claims(result: Result) -> list[Claim]:
    of = result.of

    def added(row: str, figure: str, path: str) -> float:
        return of(row, path, figure) - of(row, "direct", figure)

    def times(row: str, figure: str, peer: str, path: str = OURS) -> float:
        return _ratio(of(row, path, figure), of(row, peer, figure))

    def more(row: str, figure: str, peer: str, path: str = OURS) -> float:
        return _ratio(added(row, figure, path), added(row, figure, peer))

    def grows(name: str) -> float:
        return _ratio(result.waiting.get(f"{name}_{MANY}", math.nan), result.waiting.get(f"{name}_{FEW}", math.nan))

    whole, first, speed = "whole_p50_ms", "first_p50_ms", "speed-32"
    return [
        Claim("one client, added p50, of nginx's", more("whole-1", whole, "nginx"), 6),
        Claim("one client, added p50, of LiteLLM's", more("whole-1", whole, "litellm"), 1 / 6),
        Claim("one stream, added first token p50, of nginx's", more("first-1", first, "nginx"), 6),
        Claim("one stream, added first token p50, of LiteLLM's", more("first-1", first, "litellm"), 1 / 6),
        Claim("32 clients, CPU an answer, of vllm-router's", times("whole-32", "cpu_us_answer", "vllm-router"), 5),
        Claim("32 clients, CPU an answer, of LiteLLM's", times("whole-32", "cpu_us_answer", "litellm"), 1 / 20),
        Claim("32 clients, answers/s, of LiteLLM's", times("whole-32", "answers_s", "litellm"), 24, least=True),
        Claim("32 clients, answers/s, of openai-rq's", times("whole-32", "answers_s", "openai-rq"), 11, least=True),
        Claim("32 streams, CPU a token, of vllm-router's", times(speed, "cpu_us_token", "vllm-router"), 1.3),
        Claim("32 streams, tokens/s, of vllm-router's", times(speed, "tokens_s", "vllm-router"), 0.9, least=True),
        Claim("32 streams, tokens/s, of LiteLLM's", times(speed, "tokens_s", "litellm"), 75, least=True),
        Claim("64 streams, added first token p50, of vllm-router's", more("paced-64", first, "vllm-router"), 5),
        Claim("64 streams, between tokens p95, of direct's", times("paced-64", "gap_p95_ms", "direct"), 1.3),
        Claim("256 streams, lost answers", of("burst-256", OURS, "lost"), 0),
        Claim("256 streams, first token p50, of vllm-router's", times("burst-256", first, "vllm-router"), 16),
        Claim("two of each, CPU an answer, of one of each", times("whole-32", "cpu_us_answer", OURS, FLEET), 1.25),
        Claim("10,000 waiting, a pull, of ten's", grows("pull_us"), 1.5),
        Claim("10,000 waiting, a submit, of ten's", grows("submit_us"), 1.5),
        Claim("10,000 waiting, /metrics, of ten's", grows("metrics_ms"), 1.5),
        Claim("gateway's memory, KB a waiting client", result.waiting.get(f"memory_{MANY}", math.nan) / 1000, 60),
        Claim("embedded store, added p50, of nginx's", more("whole-1", whole, "nginx", EMBEDDED), 15),
        Claim(
            "embedded store, tokens/s of each of 8 streams", of("pace-8", EMBEDDED, "stream_tokens_s"), 57, least=True
        ),
    ]


def _ratio(one: float, other: float) -> float:
    return one / other if other else math.nan

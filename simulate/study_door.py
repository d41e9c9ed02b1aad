"""The product's own way to an engine: its order, credit, window, estimates, pieces and admission in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from policy.admission import Refuse, admit
from policy.credit import Credit, Need, claim_tokens, limits
from policy.drain import Drain
from policy.estimate import OutputLengths
from policy.flight import Flight
from policy.lane import is_long
from policy.lineup import Lineup
from policy.pull import pull
from policy.segment import pause_s
from simulate.cost import Profile
from simulate.doors import BATCH, request_of
from simulate.sequence import Running
from simulate.virtual import Ask, Sending

MAX_WAIT_S = 60.0
"""What ``DOUBLEBUFFER_MAX_WAIT_SECONDS`` is if nobody sets it."""
ALONE_TOKENS_PER_S = 40.0
"""Pace of an answer, for what nothing is known of yet."""
QUEUE_LIMIT = 100_000
PATH_S = 0.0025
"""From the gateway's script to the engine's socket, as measured with four idle workers (half of it is the wake-up)."""


@dataclass(slots=True, eq=False)
class _Job:
    ask: Ask
    prompt: int
    """Tokens that the engine keeps of it: Ollama cuts longer ones."""
    parts: int = 0


class Doublebuffer:
    """``segment_tokens``: of a piece of a long prompt before an engine with nothing else to do."""

    path_s = PATH_S

    def __init__(
        self,
        profile: Profile,
        *,
        block_tokens: int,
        segment_tokens: int = 512,
        max_wait_s: float = MAX_WAIT_S,
        refuse_wait_s: Mapping[str, float] | None = None,
    ) -> None:
        self._profile = profile
        self._block = block_tokens
        self._segment = segment_tokens if profile.kind == "vllm" else 0
        self._longest = min(profile.context_length, profile.kv_capacity())
        self._credit: Credit = limits(
            profile.slots,
            kv_tokens=profile.kv_tokens or None,
            ollama=profile.kind == "ollama",
            segment_tokens=self._segment or None,
        )
        if self._segment:
            self._credit = self._credit._replace(segment=self._segment, pause=pause_s(self._segment, profile.rate))
        self._lineup = Lineup(max_wait_s)
        self._flight = Flight()
        self._lengths = OutputLengths()
        self._refuse_wait_s = refuse_wait_s
        self._drains: dict[str, Drain] = {}
        self._jobs: dict[str, _Job] = {}
        self._upto: dict[object, int] = {}
        """Of what was sent, up to which token of its prompt it goes."""
        self._wake_at: float | None = None

    def come(self, ask: Ask, now: float) -> None:
        arrival, lane = ask.arrival, ask.lane
        prompt = arrival.prompt_tokens
        if self._profile.kind == "ollama":
            prompt = min(prompt, self._profile.context_length)
        output = self._lengths.expected(lane)
        shared = min(arrival.shared_tokens, prompt - 1) // self._block * self._block
        new = prompt - shared
        drain = self._drains.setdefault(lane, Drain())
        alone_s = new / self._profile.rate + output / ALONE_TOKENS_PER_S if is_long(new) else 0.0
        if (self._profile.kind == "vllm" and prompt >= self._longest) or self._refuses(lane, drain, now, alone_s):
            ask.refused = True
            return
        claim = min(claim_tokens(prompt, output), self._longest) if self._credit.kv else 0
        name = str(ask.number)
        self._lineup.submit(
            name,
            now_at=now,
            user=name,
            need=Need(lane, kv=claim, prefill=new if self._segment else 0, long=is_long(new)),
            prefill_s=new / self._profile.rate,
            cost=new + output,
            prompt=prompt if self._segment else None,
        )
        self._jobs[name] = _Job(ask, prompt)
        drain.came(now)

    def _refuses(self, lane: str, drain: Drain, now: float, alone_s: float) -> bool:
        if self._refuse_wait_s is None:
            return False
        verdict = admit(
            lane,
            waiting=len(self._lineup),
            queue_limit=QUEUE_LIMIT,
            predicted_wait_s=drain.wait_s(drain.waiting + 1, now, alone_s) if drain.waiting else 0.0,
            refuse_wait=self._refuse_wait_s,
            drain_rate=drain.per_s(now, alone_s),
        )
        if isinstance(verdict, Refuse):
            drain.refused(now)
            return True
        return False

    def go(self, now: float) -> list[Sending]:
        pulled = pull(self._lineup, want=BATCH, credit=self._credit, flight=self._flight, now_at=now)
        self._wake_at = pulled.look_at
        for waiting, _ in pulled.jobs:
            self._drains[waiting.lane].went(now)
        going = [(waiting.id, upto) for waiting, upto in pulled.jobs] + [(id, upto) for id, upto in pulled.pieces]
        return [self._send(self._jobs[id], upto) for id, upto in going]

    def wake_at(self) -> float | None:
        return self._wake_at

    def begun(self, sending: Sending, now: float) -> None:
        self._flight.read(str(sending.ask.number), self._upto.pop(sending.request.id))

    def done(self, sending: Sending, running: Running, now: float) -> None:
        if sending.final:
            self._forget(sending.ask)
            self._lengths.add(sending.ask.lane, running.output)

    def refused(self, sending: Sending) -> None:
        self._forget(sending.ask)

    def _forget(self, ask: Ask) -> None:
        self._flight.remove(str(ask.number))
        del self._jobs[str(ask.number)]

    def _send(self, job: _Job, upto: int) -> Sending:
        job.parts += 1
        request = request_of(job.ask, self._block, upto=upto or None, part=job.parts)
        self._upto[request.id] = upto or job.prompt
        return Sending(job.ask, request, not upto)

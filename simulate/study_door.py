"""The product's own way to an engine: its order, credit, window, estimates, pieces and admission in virtual time."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from policy.admission import Refuse, admit
from policy.credit import Credit, Load, Need, claim_tokens, for_waiting, limits, load_of
from policy.estimate import Drain, OutputLengths, predicted_wait_s
from policy.lane import LANES, SHORT_LANES, is_long
from policy.lineup import Lineup, Waiting
from policy.segment import next_piece, pause_s, prefill_room
from simulate.cost import Profile
from simulate.doors import request_of
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
    claim: int
    """Tokens of memory that it is reckoned to take."""
    long: bool
    waiting: Waiting
    read: int
    """Prompt tokens that are in the engine's memory, or on their way there."""
    begun: bool = False
    parts: int = 0
    flying: int = 0
    """Pieces in flight."""


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
        self._max_wait_s = max_wait_s
        self._lineup = Lineup(max_wait_s)
        self._load = Load()
        self._lengths = OutputLengths()
        self._refuse_wait_s = refuse_wait_s
        self._drains: dict[str, Drain] = {}
        self._jobs: dict[int, _Job] = {}
        self._begun: dict[int, _Job] = {}
        self._readers: list[_Job] = []
        """Jobs with a piece in flight and more to come, in the order in which they began."""
        self._prefill: dict[object, int] = {}
        self._short_waiting = 0
        self._free = 1.0
        self._next_piece_at = 0.0
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
        waiting = self._lineup.submit(
            str(ask.number),
            now_at=now,
            user=str(ask.number),
            need=Need(lane),
            prefill_s=new / self._profile.rate,
            cost=new + output,
        )
        claim = min(claim_tokens(prompt, output), self._longest) if self._credit.kv else 0
        self._jobs[ask.number] = _Job(ask, prompt, claim, is_long(new), waiting, shared if self._segment else 0)
        self._short_waiting += lane in SHORT_LANES
        drain.came(now)

    def _refuses(self, lane: str, drain: Drain, now: float, alone_s: float) -> bool:
        if self._refuse_wait_s is None:
            return False
        drain_per_s = drain.per_s(now, alone_s)
        wait_s = predicted_wait_s(drain.waiting + 1, drain_per_s, room=not drain.waiting)
        verdict = admit(
            lane,
            waiting=len(self._lineup),
            queue_limit=QUEUE_LIMIT,
            predicted_wait_s=wait_s,
            refuse_wait=self._refuse_wait_s,
            drain_rate=drain_per_s,
        )
        return isinstance(verdict, Refuse)

    def go(self, now: float) -> list[Sending]:
        batch: list[Sending] = []
        self._wake_at = None
        while (job := self._choose(now)) is not None:
            batch.append(self._send(job, now))
        return batch

    def wake_at(self) -> float | None:
        return self._wake_at

    def begun(self, sending: Sending, now: float) -> None:
        self._load.prefill -= self._prefill.pop(sending.request.id)

    def done(self, sending: Sending, running: Running, now: float) -> None:
        job = self._jobs[sending.ask.number]
        job.flying -= 1
        if sending.final:
            self._forget(job)
            self._lengths.add(sending.ask.lane, running.output)
        elif not job.flying and job in self._readers:
            self._readers.remove(job)
            self._load.jobs -= 1
            self._lineup.put_back(job.waiting)

    def refused(self, sending: Sending) -> None:
        self.begun(sending, 0.0)
        self._forget(self._jobs[sending.ask.number])

    def _forget(self, job: _Job) -> None:
        self._load.remove(Need(job.ask.lane, kv=job.claim, long=job.long))
        del self._jobs[job.ask.number]
        del self._begun[job.ask.number]

    def _choose(self, now: float) -> _Job | None:
        """Who goes next: whose turn it is, or else the next piece of a prompt that is being read."""
        self._free = 1 - self._load.kv / self._credit.kv if self._credit.kv else 1.0
        credit = self._credit
        if self._segment:
            room = prefill_room(self._segment, self._free)
            if now < self._next_piece_at:
                room, self._wake_at = 1, self._next_piece_at
            credit = credit._replace(prefill=room)
            if self._load.prefill >= room and not self._short_waiting:
                return None
        oldest_at = self._lineup.oldest_at()
        if oldest_at is not None:
            credit = for_waiting(credit, now - oldest_at, self._max_wait_s)
        taken = self._lineup.pull(want=1, credit=credit, load=self._load, need_of=self._need, flight=self._flight)
        if taken:
            return self._jobs[int(taken[0].id)]
        for job in sorted(self._readers, key=lambda job: (job.flying, job.waiting.score)):
            piece = self._piece(job)[0]
            if self._load.prefill + piece <= credit.prefill:
                self._load.prefill += piece
                return job
        return None

    def _piece(self, job: _Job) -> tuple[int, int | None]:
        """Tokens of what goes of a job now, and up to which prompt token it does; None: to the end, answer included."""
        upto = None if job.ask.lane == "fast" else next_piece(job.prompt, job.read, self._segment, self._free)
        return (job.prompt if upto is None else upto) - job.read, upto

    def _need(self, waiting: Waiting) -> Need:
        job = self._jobs[int(waiting.id)]
        piece = self._piece(job)[0] if self._segment and job.ask.lane != "fast" else 0
        if piece and any(LANES.index(other.ask.lane) <= LANES.index(job.ask.lane) for other in self._readers):
            # One prompt of a lane is read after the other: side by side both would be late.
            piece += 8 * self._segment
        if job.begun:
            return Need(job.ask.lane, prefill=piece)
        return Need(job.ask.lane, kv=job.claim, prefill=piece, long=job.long)

    def _flight(self, lanes: Collection[str] = LANES, *, after: float = -math.inf) -> Load:
        return load_of(
            Need(job.ask.lane, kv=job.claim, long=job.long)
            for job in self._begun.values()
            if job.ask.at > after and job.ask.lane in lanes
        )

    def _send(self, job: _Job, now: float) -> Sending:
        piece, upto = self._piece(job)
        lane = job.ask.lane
        if not job.begun:
            job.begun = True
            self._begun[job.ask.number] = job
            self._short_waiting -= lane in SHORT_LANES
            self._drains[lane].went(now)
        if lane != "fast":
            self._next_piece_at = now + pause_s(self._segment, self._profile.rate)
        if upto is not None and job not in self._readers:
            self._readers.append(job)
        elif upto is None and job in self._readers:
            self._readers.remove(job)
        job.parts += 1
        job.flying += 1
        job.read = job.prompt if upto is None else upto
        request = request_of(job.ask, self._block, upto=upto, part=job.parts)
        self._prefill[request.id] = piece if self._segment and lane != "fast" else 0
        return Sending(job.ask, request, upto is None)

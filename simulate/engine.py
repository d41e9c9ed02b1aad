"""A step engine that isn't there: requests in, steps with their modelled durations out.

Pure: the caller owns the clock. In real time it sleeps for a step's duration; in virtual time it adds it up, and lets
the engine run on to the next thing that can happen (``until``). Nothing here is done once a token: the sequences that
decode share one clock that counts decode steps, so that a step costs what changes in it and no more.

All times are seconds on the caller's clock, all lengths tokens.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Hashable

from simulate.cost import Profile, step_s
from simulate.sequence import RefusedError, Request, Running, Step

BLOCK_TOKENS = 16
"""Tokens of a block of the prefix cache."""

__all__ = ["BLOCK_TOKENS", "Engine", "RefusedError", "Request", "Running", "Step"]


class Engine(ABC):
    """What both orders of work share. ``simulate.orders.make_engine`` makes the one of a profile."""

    def __init__(self, profile: Profile, *, block_tokens: int = BLOCK_TOKENS) -> None:
        self.profile = profile
        self.block_tokens = block_tokens
        self.capacity = profile.kv_capacity()
        self.held = 0
        """Tokens of KV in use; what the prefix cache merely remembers not among them."""
        self.preemptions = 0
        self.prompt_tokens = 0
        """Prompt tokens of all requests admitted so far, cached ones among them."""
        self.cached_tokens = 0
        self.generated_tokens = 0
        self.finished = 0
        self.running: OrderedDict[Hashable, Running] = OrderedDict()
        """Sequences with a slot, in order of admission."""
        self._arriving: deque[Running] = deque()
        self._waiting: OrderedDict[Hashable, Running] = OrderedDict()
        self._reading: deque[Running] = deque()
        self._all: dict[Hashable, Running] = {}
        self._due: list[tuple[int, int, Running]] = []
        self._entries = 0
        self._clock = 0
        self._context = 0

    # -- what a caller uses -------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._waiting) + len(self._arriving)

    @property
    def kv_usage(self) -> float:
        """Share of the KV in use, 0 to 1."""
        return self.held / self.capacity

    @property
    def wake_at(self) -> float | None:
        """With ``step`` giving None: when it is worth asking again, or None for after the next ``submit``."""
        return self._arriving[0].ready_at if self._arriving else None

    def submit(self, request: Request, now: float) -> Running:
        """Hand the engine a request. Raises ``RefusedError``, and ``ValueError`` on an id that is inside already."""
        if request.id in self._all:
            raise ValueError(f"request {request.id!r} is in the engine already")
        if request.prompt_tokens < 1:
            raise ValueError("a prompt has at least one token")
        sequence = Running(request, now, now + self.profile.fixed_s)
        self._accept(sequence)
        self._all[request.id] = sequence
        self._arriving.append(sequence)
        return sequence

    def cancel(self, request_id: Hashable) -> bool:
        """Forget a request at once, and free what it holds. False: there is none such."""
        sequence = self._all.pop(request_id, None)
        if sequence is None:
            return False
        self.generated_tokens += self.generated(sequence)
        if sequence.phase == "arriving":
            self._arriving.remove(sequence)
        elif sequence.phase == "waiting":
            del self._waiting[request_id]
        else:
            self._vacate(sequence)
        sequence.phase = "cancelled"
        return True

    def generated(self, sequence: Running) -> int:
        """Tokens that the sequence has written by the end of the last step."""
        if sequence.phase == "writing":
            return sequence.base + 1 + self._clock - sequence.start
        return sequence.output if sequence.phase == "finished" else sequence.base

    def step(self, now: float, until: float | None = None) -> Step | None:
        """Begin the next step at ``now``; None if there is nothing to do (see ``wake_at``).

        With ``until``, plain decode steps in a row are taken as one, up to the first that would begin at or after it,
        as long as nothing happens in them. Whoever says ``until`` knows of no request that arrives before it.
        """
        while self._arriving and self._arriving[0].ready_at <= now:
            sequence = self._arriving.popleft()
            sequence.phase = "waiting"
            self._waiting[sequence.request.id] = sequence
        loading_s = self._load()
        if loading_s:
            return Step(loading_s, 0, [], [], loading=True)
        crowded = self._make_room()
        decoding = len(self.running) - len(self._reading)
        read: list[Running] = []
        tokens, attention = self._read(now, self.profile.step_budget - decoding, read, crowded=crowded)
        if not decoding and not tokens:
            return None
        duration_s = step_s(self.profile, prefill=tokens, decoding=decoding, context=self._context, attention=attention)
        count = 1
        if until is not None and not tokens and not crowded:
            count, duration_s = self._stretch(now, until, decoding, duration_s)
        self._clock += count
        self._context += decoding * count
        self._grow(decoding * count)
        step = Step(duration_s, count, [], self._finish_due())
        for sequence in read:
            self._begin_writing(sequence, step)
        return step

    # -- what the two orders of work differ in ------------------------------------------------------------------------

    @abstractmethod
    def _accept(self, sequence: Running) -> None:
        """Cut or refuse a request. Raises ``RefusedError``."""

    @abstractmethod
    def _load(self) -> float:
        """Seconds of loading that must come before the next step, or 0."""

    @abstractmethod
    def _make_room(self) -> bool:
        """Before a step: KV for one more token of each sequence that decodes. True: somebody had to go for it."""

    @abstractmethod
    def _read(self, now: float, budget: int, read: list[Running], *, crowded: bool) -> tuple[int, float]:
        """Admit and read prompts. Appends those read to the end to ``read``; returns (tokens, attention)."""

    @abstractmethod
    def _grow(self, tokens: int) -> None:
        """The sequences that decode have ``tokens`` more of KV together."""

    @abstractmethod
    def _forget_kv(self, sequence: Running) -> None:
        """A sequence with a slot leaves it."""

    @abstractmethod
    def _most_steps(self, decoding: int) -> int:
        """Decode steps in a row that need no look at the KV."""

    @abstractmethod
    def _next_due(self, sequence: Running) -> int:
        """The decode clock at which something happens to a sequence that writes."""

    @abstractmethod
    def _happens(self, sequence: Running) -> None:
        """A sequence that writes has come to ``_next_due``, and not yet to its last token."""

    # -- shared -------------------------------------------------------------------------------------------------------

    def _context_of(self, sequence: Running) -> int:
        """Tokens of KV of a sequence that writes."""
        return sequence.target + self._clock - sequence.start - sequence.forgotten

    def _stretch(self, now: float, until: float, decoding: int, first_s: float) -> tuple[int, float]:
        """How many decode steps in a row, the first of which takes ``first_s``, and their seconds together."""
        while self._stale(self._due[0]):
            heapq.heappop(self._due)
        most = min(self._due[0][0] - self._clock, self._most_steps(decoding))
        horizon = until if self.wake_at is None else min(until, self.wake_at)
        rise = self.profile.per_context_token_s * decoding
        if horizon - now < most * (first_s + rise * most):
            left, half = max(0.0, horizon - now), rise / 2
            straight = first_s - half
            steps = (math.sqrt(straight * straight + 4 * half * left) - straight) / rise if rise else left / straight
            most = min(most, math.ceil(steps))
        count = max(1, most)
        return count, count * first_s + rise * count * (count - 1) / 2

    def _stale(self, entry: tuple[int, int, Running]) -> bool:
        at, _, sequence = entry
        return sequence.phase != "writing" or at != self._next_due(sequence)

    def _push(self, sequence: Running) -> None:
        self._entries += 1
        heapq.heappush(self._due, (self._next_due(sequence), self._entries, sequence))

    def _finish_due(self) -> list[Running]:
        finished: list[Running] = []
        while self._due and self._due[0][0] <= self._clock:
            entry = heapq.heappop(self._due)
            sequence = entry[2]
            if self._stale(entry):
                continue
            if sequence.due > self._clock:
                self._happens(sequence)
                self._push(sequence)
            else:
                self._finish(sequence, finished)
        return finished

    def _finish(self, sequence: Running, finished: list[Running]) -> None:
        self._vacate(sequence)
        self.generated_tokens += sequence.output
        self.finished += 1
        del self._all[sequence.request.id]
        sequence.phase = "finished"
        finished.append(sequence)

    def _begin_writing(self, sequence: Running, step: Step) -> None:
        """The step read a prompt to its end, which gives one token."""
        sequence.phase = "writing"
        sequence.start = self._clock
        sequence.due = self._clock + sequence.output - sequence.base - 1
        self._context += sequence.target - sequence.forgotten
        if not sequence.base:
            step.first.append(sequence)
        if sequence.due == self._clock:
            self._finish(sequence, step.finished)
        else:
            self._push(sequence)

    def _vacate(self, sequence: Running) -> int:
        """Take a sequence's slot and KV away; returns the tokens it has written."""
        written = self.generated(sequence)
        if sequence.phase == "writing":
            self._context -= self._context_of(sequence)
        else:
            self._reading.remove(sequence)
        self._forget_kv(sequence)
        del self.running[sequence.request.id]
        return written

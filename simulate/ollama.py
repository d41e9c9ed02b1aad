"""Ollama's order of work."""

from __future__ import annotations

from simulate.cost import Profile, attention_of
from simulate.engine import BLOCK_TOKENS, Engine
from simulate.prefix import SlotMemory
from simulate.sequence import RefusedError, Running

QUEUE = 512
"""Requests that may wait for a slot; one more is refused."""
LOAD_S = 8.0
"""Loading another model than the one in memory."""
OPEN_END = 10
"""An answer ends after this many times ``num_ctx``, whatever was asked."""


class OllamaEngine(Engine):
    """A semaphore of slots in order of arrival; prompts are read in turns, a chunk of one at a time.

    A prompt longer than ``num_ctx`` is cut there; an answer that reaches it goes on without the older half of its
    context. One model is in memory: a request for another, or for another ``num_ctx``, waits at the head until what
    runs is done, then for the loading. Each slot remembers the prompt it read last.
    """

    def __init__(self, profile: Profile, *, block_tokens: int = BLOCK_TOKENS, loaded: str = "") -> None:
        super().__init__(profile, block_tokens=block_tokens)
        self.loaded: tuple[str, int] | None = (loaded, profile.context_length)
        """The model in memory and its context length."""
        self._memory = SlotMemory(profile.slots)

    def unload(self) -> bool:
        """Take the model out of memory, if nothing runs."""
        if self.running:
            return False
        self.loaded = None
        self._memory.forget()
        return True

    def _wanted(self, sequence: Running) -> tuple[str, int]:
        return sequence.request.model, sequence.request.num_ctx or self.profile.context_length

    def _accept(self, sequence: Running) -> None:
        if len(self.running) + self.waiting >= self.profile.slots + QUEUE:
            raise RefusedError("busy")
        num_ctx = self._wanted(sequence)[1]
        most = OPEN_END * num_ctx
        sequence.prompt = sequence.target = min(sequence.prompt, num_ctx)
        sequence.cut = sequence.output > most
        sequence.output = min(sequence.output, most)

    def _load(self) -> float:
        if self.running or not self._waiting:
            return 0.0
        wanted = self._wanted(next(iter(self._waiting.values())))
        if wanted == self.loaded:
            return 0.0
        self.loaded = wanted
        self.capacity = self.profile.slots * wanted[1]
        self._memory.forget()
        return LOAD_S

    def _make_room(self) -> bool:
        return False

    def _read(self, now: float, budget: int, read: list[Running], *, crowded: bool) -> tuple[int, float]:
        while self._waiting and len(self.running) < self.profile.slots:
            sequence = next(iter(self._waiting.values()))
            if self._wanted(sequence) != self.loaded:
                break
            self._admit(sequence, now)
        tokens, attention = 0, 0.0
        for _ in range(len(self._reading)):
            if not budget:
                break
            sequence = self._reading.popleft()
            chunk = min(budget, sequence.target - sequence.done)
            attention += attention_of(chunk, sequence.done)
            sequence.done += chunk
            tokens, budget = tokens + chunk, budget - chunk
            if sequence.done == sequence.target:
                read.append(sequence)
            else:
                self._reading.append(sequence)
        return tokens, attention

    def _admit(self, sequence: Running, now: float) -> None:
        del self._waiting[sequence.request.id]
        sequence.slot, known = self._memory.take(sequence.request.blocks)
        sequence.done = sequence.cached = min(known, (sequence.prompt - 1) // self.block_tokens) * self.block_tokens
        sequence.phase = "reading"
        sequence.admitted_at = now
        self.running[sequence.request.id] = sequence
        self._reading.append(sequence)
        self.held += self._wanted(sequence)[1]
        self.prompt_tokens += sequence.prompt
        self.cached_tokens += sequence.cached

    def _grow(self, tokens: int) -> None:
        """A slot's KV is reserved whole."""

    def _forget_kv(self, sequence: Running) -> None:
        self.held -= self._wanted(sequence)[1]
        full = 0 if sequence.forgotten else sequence.done // self.block_tokens
        self._memory.give_back(sequence.slot, sequence.request.blocks[:full])

    def _most_steps(self, decoding: int) -> int:
        return self.profile.step_budget * self.profile.context_length

    def _next_due(self, sequence: Running) -> int:
        full = sequence.start + self._wanted(sequence)[1] + sequence.forgotten - sequence.target
        return min(sequence.due, max(full, sequence.start + 1))

    def _happens(self, sequence: Running) -> None:
        half = max(1, self._wanted(sequence)[1] // 2)
        sequence.forgotten += half
        self._context -= half

"""vLLM's order of work."""

from __future__ import annotations

import math

from simulate.cost import Profile, attention_of
from simulate.engine import BLOCK_TOKENS, Engine
from simulate.prefix import BlockPool
from simulate.sequence import RefusedError, Running


class VllmEngine(Engine):
    """Running sequences first, unfinished prompts among them; then waiting ones in order of arrival.

    Waiting ones are taken while slots, budget and KV last; a head that does not fit blocks all behind it. A prompt's KV
    is taken when it is admitted, an answer's as it grows; when there is none left, the sequence admitted last goes back
    to the head of the queue and is computed again. Full blocks of prompts that have been read are shared, and
    remembered until their room is needed; those of answers are not.
    """

    def __init__(self, profile: Profile, *, block_tokens: int = BLOCK_TOKENS) -> None:
        super().__init__(profile, block_tokens=block_tokens)
        self.context_length = min(profile.context_length, self.capacity)
        self._pool = BlockPool()

    def _accept(self, sequence: Running) -> None:
        room = self.context_length - sequence.prompt
        if room < 1:
            raise RefusedError("too_long")
        sequence.cut = sequence.output > room
        sequence.output = min(sequence.output, room)

    def _load(self) -> float:
        return 0.0

    def _make_room(self) -> bool:
        crowded = False
        while self.running and self.held + len(self.running) - len(self._reading) > self.capacity:
            self._preempt(next(reversed(self.running.values())))
            crowded = True
        return crowded

    def _preempt(self, sequence: Running) -> None:
        """Back to the head of the queue, its KV lost."""
        sequence.base = self._vacate(sequence)
        sequence.phase = "waiting"
        sequence.target = sequence.prompt + sequence.base
        sequence.done = 0
        self._waiting[sequence.request.id] = sequence
        self._waiting.move_to_end(sequence.request.id, last=False)
        self.preemptions += 1

    def _read(self, now: float, budget: int, read: list[Running], *, crowded: bool) -> tuple[int, float]:
        tokens, attention = 0, 0.0
        decoding = self.profile.step_budget - budget
        for sequence in list(self._reading):
            if not budget:
                break
            chunk, pairs = self._chunk(sequence, budget, read)
            tokens, attention, budget = tokens + chunk, attention + pairs, budget - chunk
        while budget and self._waiting and len(self.running) < self.profile.slots and not crowded:
            sequence = next(iter(self._waiting.values()))
            if not self._admit(sequence, now, decoding):
                break
            chunk, pairs = self._chunk(sequence, budget, read)
            tokens, attention, budget = tokens + chunk, attention + pairs, budget - chunk
        return tokens, attention

    def _admit(self, sequence: Running, now: float, decoding: int) -> bool:
        """Give the head of the queue a slot and the KV of what it has to read.

        False: there is no room for it beside the next tokens of the ``decoding`` others.
        """
        size, blocks = self.block_tokens, sequence.request.blocks
        most = min(len(blocks), (sequence.target - 1) // size)
        room = self.capacity - self.held - decoding
        if sequence.target - most * size > room:
            return False
        known, idle = self._pool.match(blocks, most)
        need = sequence.target - (known - idle) * size
        if need > room:
            return False
        self._pool.pin_all(blocks[:known])
        sequence.pinned = known
        sequence.done = known * size
        self.held += need
        del self._waiting[sequence.request.id]
        self.running[sequence.request.id] = sequence
        self._reading.append(sequence)
        sequence.phase = "reading"
        self._fit()
        if math.isnan(sequence.admitted_at):
            sequence.admitted_at = now
            sequence.cached = sequence.done
            self.prompt_tokens += sequence.prompt
            self.cached_tokens += sequence.done
        return True

    def _chunk(self, sequence: Running, budget: int, read: list[Running]) -> tuple[int, float]:
        """Read up to ``budget`` tokens of a prompt, and share the blocks that become full."""
        chunk = min(budget, sequence.target - sequence.done)
        pairs = attention_of(chunk, sequence.done)
        sequence.done += chunk
        blocks = sequence.request.blocks
        full = min(len(blocks), sequence.done // self.block_tokens)
        for index in range(sequence.pinned, full):
            if self._pool.pin(blocks[index]):
                self.held -= self.block_tokens
        sequence.pinned = max(sequence.pinned, full)
        if sequence.done == sequence.target:
            self._reading.remove(sequence)
            read.append(sequence)
        return chunk, pairs

    def _grow(self, tokens: int) -> None:
        self.held += tokens
        self._fit()

    def _fit(self) -> None:
        """Forget remembered blocks whose room is needed."""
        over = self.held + self._pool.idle * self.block_tokens - self.capacity
        if over > 0:
            self._pool.evict(-(-over // self.block_tokens))

    def _forget_kv(self, sequence: Running) -> None:
        written = self._context_of(sequence) if sequence.phase == "writing" else sequence.target
        freed = self._pool.release(sequence.request.blocks[: sequence.pinned])
        self.held -= written - (sequence.pinned - freed) * self.block_tokens
        sequence.pinned = 0
        self._fit()

    def _most_steps(self, decoding: int) -> int:
        return (self.capacity - self.held) // decoding

    def _next_due(self, sequence: Running) -> int:
        return sequence.due

    def _happens(self, sequence: Running) -> None:
        """Nothing can: what would outgrow the context was cut or refused at the door."""

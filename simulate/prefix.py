"""What an engine remembers of prompts it has read: vLLM's pool of blocks, and Ollama's one prompt a slot.

A prompt's blocks come as a chain of hashes: a block's hash stands for all of the prompt up to its end. So two prompts
that share block ``i`` share every block before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence


class BlockPool:
    """Blocks shared between sequences, and those that nobody uses now, oldest first to go.

    The pool counts blocks; the engine knows how many tokens one is.
    """

    def __init__(self) -> None:
        self._pinned: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def idle(self) -> int:
        """Blocks that are remembered and may be thrown out."""
        return len(self._idle)

    @property
    def pinned(self) -> int:
        """Blocks that some sequence uses."""
        return len(self._pinned)

    def match(self, blocks: Sequence[int], most: int) -> tuple[int, int]:
        """How many leading blocks are there (``most`` at most), and how many of these are idle."""
        there = idle = 0
        remembered, pinned = self._idle, self._pinned
        for block in blocks[:most]:
            if block in remembered:
                idle += 1
            elif block not in pinned:
                break
            there += 1
        return there, idle

    def pin(self, block: int) -> bool:
        """One more sequence uses the block. True: another one used it already, so that it takes no further room."""
        users = self._pinned.get(block, 0)
        self._pinned[block] = users + 1
        if users:
            return True
        self._idle.pop(block, None)
        return False

    def pin_all(self, blocks: Sequence[int]) -> None:
        """As ``pin``, of many: prompts that are read in pieces pin all of their beginning again with each."""
        pinned, idle = self._pinned, self._idle
        for block in blocks:
            users = pinned.get(block, 0)
            pinned[block] = users + 1
            if not users:
                idle.pop(block, None)

    def release(self, blocks: Sequence[int]) -> int:
        """A sequence lets go of its blocks; of those, a prompt's last will be thrown out first.

        Returns how many nobody else uses, so that they are idle now.
        """
        freed = 0
        pinned, idle = self._pinned, self._idle
        for block in reversed(blocks):
            users = pinned[block] - 1
            if users:
                pinned[block] = users
            else:
                del pinned[block]
                idle[block] = None
                freed += 1
        return freed

    def evict(self, count: int) -> None:
        """Forget the ``count`` blocks that have been idle longest."""
        for _ in range(min(count, len(self._idle))):
            self._idle.popitem(last=False)


class SlotMemory:
    """The prompt that each slot read last. A slot in use is lent to nobody."""

    def __init__(self, slots: int) -> None:
        self._prompts: list[Sequence[int]] = [()] * slots
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(slots))

    def take(self, blocks: Sequence[int]) -> tuple[int, int]:
        """The free slot that remembers most of the prompt (of equals, the one free longest), and how many blocks of it.

        Raises ``LookupError`` if no slot is free.
        """
        if not self._free:
            raise LookupError("no slot is free")
        best, known = -1, -1
        for slot in self._free:
            shared = _common(self._prompts[slot], blocks)
            if shared > known:
                best, known = slot, shared
        del self._free[best]
        return best, known

    def give_back(self, slot: int, blocks: Sequence[int]) -> None:
        """The slot is free, and remembers ``blocks``."""
        self._prompts[slot] = blocks
        self._free[slot] = None

    def forget(self) -> None:
        """Another model has been loaded."""
        self._prompts = [()] * len(self._prompts)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Leading blocks that two chains share; a halving search, since equal hashes mean equal beginnings."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[middle - 1] == right[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low

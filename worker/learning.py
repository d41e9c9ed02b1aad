"""What a worker sees of how fast a back end is, how long its answers are, and how many tokens a text has there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from policy.learned import Learned, Told

MOST_MODELS = 64
"""Of one back end. Some offer hundreds; the one used last for the first time stays."""


class Learning:
    """Of one back end: a ``Learned`` for each of its models, and which prompts are read alone."""

    def __init__(self) -> None:
        self._models: dict[str, Learned] = {}
        self._reading: set[str] = set()
        """Streams that have not begun to flow;"""
        self._lone = ""
        """the one of them beside which no other prompt has been read so far;"""
        self._alone: set[str] = set()
        """and those that flow, and were such a one till then."""

    def of(self, model: str) -> Learned:
        """``model``: its upstream name."""
        found = self._models.get(model)
        if found is None:
            if len(self._models) >= MOST_MODELS:
                del self._models[next(iter(self._models))]
            found = self._models[model] = Learned()
        return found

    def slowest_prefill(self) -> float | None:
        """Prompt tokens a second, of the slowest of its models; None: of none it is known."""
        return min((rate for one in self._models.values() if (rate := one.prefill_rate)), default=None)

    def started(self, stream: str) -> None:
        self._lone = "" if self._reading else stream
        self._reading.add(stream)

    def flowed(self, stream: str) -> None:
        """A piece of its answer came."""
        if stream in self._reading:
            self._reading.discard(stream)
            if stream == self._lone:
                self._alone.add(stream)

    def ended(self, stream: str) -> None:
        self._reading.discard(stream)
        self._alone.discard(stream)

    def was_alone(self, stream: str) -> bool:
        """Its prompt was read with no other of this worker's beside it, as long as the stream has not ended. Answers
        that are written meanwhile hardly slow an engine down."""
        return stream in self._alone

    def told(self, served: Collection[str]) -> dict[str, dict[str, tuple[float, float]]]:
        """What others may go by, of the models that are ``served``; of others it is forgotten."""
        for model in self._models.keys() - set(served):
            del self._models[model]
        return {model: told for model, learned in self._models.items() if (told := learned.told())}

    def adopt(self, told: Mapping[str, Told], served: Collection[str]) -> None:
        """Another worker tells what it has seen."""
        for model, figures in told.items():
            if model in served:
                self.of(model).adopt(figures)

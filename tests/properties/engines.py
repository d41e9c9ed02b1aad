"""A back end that says numbered words, as the schedule has it: slowly, breaking off, or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from backends.base import BackendError, Beginning, Embedded, FailureKind, Probe
from buffer.backend import BackendSpec, ModelInfo
from buffer.embed import Embed
from buffer.heard import UNSEEN_TOKENS, Said
from buffer.job import Chat, Content, Event, Finish, Reasoning, Usage
from tests.properties.far import Far
from tests.properties.ledger import PROMPT_TOKENS, Violation
from tests.properties.text import word, words
from tests.properties.world import World


class Engine:
    """One back end, as one worker reaches it. Thoughts come before words; each is a token, some stand around them."""

    def __init__(self, world: World, far: Far, spec: BackendSpec, models: tuple[str, ...], *, splits: bool) -> None:
        self.spec = spec
        self.continues = spec.kind != "openai"
        self._world, self.far, self._models = world, far, models
        self.splits = splits

    async def beginning(self, chat: Chat, *, upstream_model: str) -> Beginning | None:
        return Pieces(self._world, self.far) if self._world.rng.random() < 0.9 else None

    async def chat(
        self,
        chat: Chat,
        *,
        upstream_model: str,
        request_id: str,
        said: Said | None = None,
        spent: int = 0,
        beginning: Beginning | None = None,
    ) -> AsyncGenerator[list[Event], None]:
        world, rng, said = self._world, self._world.rng, said or Said()
        client = world.ledger.clients[request_id]
        if said and not client.resumable:
            self._fail(f"P1: {request_id} cannot be gone on with, and is asked to from {said!r}")
        if said and not self.continues:
            self._fail(f"P1: {request_id} is to be gone on with at {self.spec.name}, which cannot")
        if upstream_model not in self._models:
            self._fail(f"{request_id} went to {self.spec.name}, which has no {upstream_model}")
        attempt = world.ledger.attempt(request_id, said)
        before = len(words(said.thought)) + len(words(said.text))
        taken = before + (UNSEEN_TOKENS if said.thought else 0)
        if spent != taken:
            self._fail(f"P1: {request_id} goes on behind {taken} tokens, and is told {spent}")
        breaks_at = rng.randint(0, 12) if world.faulty and rng.random() < 0.1 else -1
        await self._sleep(0.02, 0.3)
        for number in range(before, client.thoughts + client.total):
            if number - before == breaks_at:
                kind: FailureKind = "broken" if number > before else rng.choice(("failed", "refused"))
                world.ledger.counts[f"engine {kind}"] += 1
                raise BackendError("The engine broke off.", kind=kind)
            thinks = number < client.thoughts
            piece = word(number if thinks else number - client.thoughts, attempt)
            yield [Reasoning(piece) if thinks else Content(piece)]
            await self._sleep(0.005, 0.3)
        end: list[Event] = [Finish("stop"), Usage(PROMPT_TOKENS + taken, client.tokens - taken)]
        if rng.random() < 0.5:
            yield end
            return
        for event in end:
            await self._sleep(0.0, 0.02)
            yield [event]

    def _fail(self, what: str) -> None:
        """The worker takes whatever is raised here for a defect of its own."""
        self._world.fail(Violation(what))

    async def _sleep(self, least_s: float, most_s: float) -> None:
        await self._world.later(least_s, most_s)
        await self.far.awake()

    async def embed(self, embed: Embed, *, upstream_model: str) -> Embedded:
        raise NotImplementedError

    async def probe(self) -> Probe:
        await self.far.awake()
        return Probe(models=[ModelInfo(id=model) for model in self._models], slots=self.spec.max_in_flight)

    async def aclose(self) -> None:
        """Nothing is open."""


class Pieces:
    """A prompt that is read in pieces: slowly, or not at all."""

    at_once = 2

    def __init__(self, world: World, far: Far) -> None:
        self._world, self._far = world, far
        self.tokens = world.rng.randint(500, 3000)
        self.tries = world.rng.random() < 0.1

    async def read(self, upto: int) -> None:
        rng = self._world.rng
        self._world.ledger.counts["pieces"] += 1
        await self._world.later(0.01, 0.3)
        await self._far.awake()
        if self._world.faulty and rng.random() < 0.03:
            kind: FailureKind = rng.choice(("failed", "refused", "client"))
            self._world.ledger.counts[f"engine {kind}"] += 1
            raise BackendError("The engine broke off.", kind=kind)

    def close(self) -> None:
        """Nothing is open."""

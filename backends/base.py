"""What a back end can do, and how it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from typing import Any, Literal, Protocol

from msgspec import Struct

from buffer.backend import BackendSpec, ModelInfo
from buffer.embed import Embed
from buffer.heard import Said
from buffer.job import Chat, Event, Usage

NOTHING_SAID = Said()

OUR_KEY = "upstream_auth"
"""Code of a back end's refusal of the key that it was configured with."""
NO_MODEL = "model_not_found"
"""Code of its word that it does not have the model, which it had told of."""
FailureKind = Literal["client", "refused", "failed", "broken"]
"""``client``: the request's own fault, never tried again. ``refused``: no connection, or busy; nothing was generated.
``failed``: an error before the first event. ``broken``: an error after it."""


class Probe(Struct, omit_defaults=True):
    """What one look at a back end found."""

    models: list[ModelInfo] = []
    slots: int | None = None
    """Requests that it runs side by side, where it tells."""
    kv_tokens: int | None = None
    prefix_caching: bool | None = None
    """Whether it remembers the beginnings of prompts, where it tells."""
    waiting: int | None = None
    """Requests in its own queue, where it tells."""
    running: int | None = None
    simulated: bool = False
    doublebuffer: bool = False
    """It is Doublebuffer itself."""
    loaded: list[str] = []
    """Ollama: models in memory now."""


class Embedded(Struct):
    """Vectors in the order of the inputs (little-endian float32, all of one length), and what they cost together."""

    vectors: list[bytes]
    usage: Usage


class BackendError(Exception):
    """A back end did not answer as it should. ``str()`` is a sentence for a person, without prompt, key or path."""

    def __init__(
        self, message: str, *, kind: FailureKind, status: int = 502, code: str = "upstream_error", param: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind: FailureKind = kind
        self.status = status
        """The status a client should see if nothing has been sent yet."""
        self.code = code
        self.param = param


class Stream(Protocol):
    """An answer's events, those of one network read together. Close it at last, which closes its connection if there is
    more to come on it. Raises ``BackendError``.

    An async generator is one. What every answer goes through is none: each costs more than what it hands on.
    """

    def __aiter__(self) -> AsyncIterator[list[Event]]: ...

    def __anext__(self) -> Coroutine[Any, Any, list[Event]]: ...

    def aclose(self) -> Coroutine[Any, Any, None]: ...


class Beginning(Protocol):
    """A prompt that its engine can read a part at a time, since it remembers what it has read. ``close`` it at last."""

    @property
    def tokens(self) -> int:
        """Of the whole prompt, as the engine counts them."""
        ...

    @property
    def at_once(self) -> int:
        """Parts that it is worth to send at a time: with two, an engine that could begin with the next does not run
        dry."""
        ...

    @property
    def tries(self) -> bool:
        """It goes whole, since its engine may refuse it as a whole: whether it does is seen from its answer."""
        ...

    async def read(self, upto: int) -> None:
        """Has the engine read the first ``upto`` tokens, and no more. Cancelling closes the connection, which stops
        the engine. Raises ``BackendError``.
        """
        ...

    def close(self) -> None:
        """Neither another part of it is to be read nor its answer."""
        ...


class Backend(Protocol):
    """An engine, reached over HTTP. Closing what ``chat`` returns closes the connection, which stops the engine."""

    spec: BackendSpec

    @property
    def continues(self) -> bool:
        """Whether it can go on with an answer that another has begun."""
        ...

    @property
    def splits(self) -> bool:
        """Whether it reads prompts in parts, as far as the last look tells."""
        ...

    async def beginning(self, chat: Chat, *, upstream_model: str) -> Beginning | None:
        """The prompt of a chat of which nothing has been said yet. None: it has to be sent whole. Raises
        ``BackendError`` where ``chat`` would before it asks.
        """
        ...

    def chat(
        self,
        chat: Chat,
        *,
        upstream_model: str,
        request_id: str,
        said: Said = NOTHING_SAID,
        spent: int = 0,
        beginning: Beginning | None = None,
    ) -> Stream:
        """The answer's events, those of one network read together. Ends after ``Finish`` for each answer.

        ``said``: what there is of the answer, for a back end that ``continues`` and a chat that ``can_go_on`` passes;
        the events are those beyond it. ``spent``: tokens that it took. The counts are those of the rest alone.
        ``beginning``: of the same chat, of which the engine has read a part.

        Raises ``BackendError``.
        """
        ...

    async def embed(self, embed: Embed, *, upstream_model: str) -> Embedded:
        """The vectors of all inputs, asked for in one request. Raises ``BackendError``; one of kind ``client`` may be
        the fault of a single input.
        """
        ...

    async def probe(self) -> Probe:
        """A look that takes no slot. Raises ``BackendError``."""
        ...

    async def aclose(self) -> None: ...

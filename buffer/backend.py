"""What gateway and worker agree on about back ends: how one is configured, and the models it tells of."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["vllm", "ollama", "llamacpp", "openai"]


class BackendSpec(Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of ``DOUBLEBUFFER_BACKENDS``."""

    name: str
    kind: Kind
    url: str
    api_key: str = ""
    models: dict[str, str] = {}
    """Client name → upstream name, beside what the back end lists."""
    max_in_flight: int | None = None
    kv_tokens: int | None = None
    num_ctx: int | None = None
    pool: str = "default"
    fallback_for: list[str] = []
    start: list[str] = []
    """A spare's: the command that starts it, as program and arguments. Without ``stop`` it is the engine's own
    process, and is ended to stop it."""
    stop: list[str] = []
    """The command that stops it; ``start`` then ends by itself once the engine is on its way."""
    scale: str = ""
    """A spare in Kubernetes: its Deployment, as ``namespace/name``, or ``name`` in the worker's own namespace."""
    start_above_seconds: float = 30.0
    """It is started when the predicted wait for one of its models passes this, or when no other serves it."""
    idle_stop_seconds: float = 600.0
    """It is stopped after so long without work."""
    start_timeout_seconds: float = 300.0
    """It has to answer so long after its start."""

    @property
    def spare(self) -> bool:
        """Whether it is started and stopped as it is needed."""
        return bool(self.start or self.scale)

    def __repr__(self) -> str:
        """Without the key, so that no log or traceback can hold it."""
        return f"BackendSpec(name={self.name!r}, kind={self.kind!r}, url={self.url!r})"


class ModelInfo(Struct, omit_defaults=True):
    """A model as its back end describes it. Sizes in bytes, lengths in tokens; 0 or empty: not told."""

    id: str
    """The upstream name."""
    context_length: int = 0
    size: int = 0
    family: str = ""
    parameter_size: str = ""
    quantization: str = ""
    format: str = ""
    digest: str = ""
    modified_at: str = ""
    capabilities: list[str] = []
    """Of Ollama's words: completion, tools, vision, embedding, thinking, insert, audio. Empty: not told."""
    architecture: str = ""
    parameter_count: int = 0
    embedding_length: int = 0

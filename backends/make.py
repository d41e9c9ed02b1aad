"""From an entry of the configuration to the back end that it means."""

from __future__ import annotations

from backends.base import Backend
from backends.exchange import Patience
from backends.ollama import OllamaBackend
from backends.openai import OpenAIBackend
from buffer.backend import BackendSpec
from buffer.model_records import Families


def make(
    spec: BackendSpec,
    *,
    connect_timeout_s: float,
    first_token_timeout_s: float,
    stall_timeout_s: float,
    families: Families | None = None,
) -> Backend:
    """Opens no connection. ``first_token_timeout_s`` runs from the request, ``stall_timeout_s`` between messages.

    ``families``: how models think; by their names alone unless given.
    """
    form = OllamaBackend if spec.kind == "ollama" else OpenAIBackend
    return form(
        spec,
        connect_timeout_s=connect_timeout_s,
        patience=Patience(first_token_timeout_s, stall_timeout_s),
        families=families or Families(),
    )

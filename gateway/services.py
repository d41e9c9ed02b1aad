"""What the routes share: built once, passed on by argument."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from buffer.files import Files
from buffer.listening import Listening
from buffer.offline import Offline
from buffer.settings import Settings
from buffer.store import Store
from buffer.telemetry import Telemetry
from gateway.answers import Answers
from gateway.catalog import Catalog
from gateway.embedding import Embeddings
from gateway.intake import Intake
from gateway.joining import Joining
from gateway.management import Management
from gateway.pools import Pool
from gateway.relay import Relay


@dataclass(frozen=True, slots=True)
class Parts:
    """What requests need of a gateway that come without HTTP, as the lines of offline batches do."""

    settings: Settings
    store: Store
    telemetry: Telemetry
    pools: Mapping[str, Pool]
    embedding_pools: Mapping[str, Pool]
    """By the same names."""
    catalog: Catalog
    intake: Intake
    relay: Relay
    embeddings: Embeddings


@dataclass(frozen=True, slots=True)
class Services(Parts):
    listening: Listening
    joining: Joining
    answers: Answers | None
    """None: no setting asks for it."""
    management: Management
    files: Files
    offline: Offline
    ended: asyncio.Event
    """Nobody reads answers any more: the application stops, or has lost the tasks that it lives by."""

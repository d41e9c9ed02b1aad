"""One request from its arrival to its last token, for the key that made it or for an admin. Never what it says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from buffer.standing import read_standing
from gateway.intake import Intake
from gateway.pools import Pool
from gateway.refusal import Refusal
from gateway.requests import UNKNOWN, told_of

_ID = re.compile("[0-9a-f]{32}")
_TOLD = ("state", "lane", "model", "queue_place", "estimated_start", "backend", "attempts", "failed_attempts")


async def timeline(pools: Iterable[Pool], intake: Intake, id: str, owner: str | None) -> dict[str, Any]:
    """``owner``: whose it has to be; None: anybody's. Raises ``Refusal`` (404) and ``StoreUnavailable``."""
    if _ID.fullmatch(id):
        for pool in pools:
            standing = await read_standing(pool.lanes, id)
            if standing is not None and owner in (None, standing.owner):
                told = told_of(standing, intake)
                failure = standing.end.failure if standing.end is not None else None
                return {name: told[name] for name in (*_TOLD, "takeovers", "detached", "timeline")} | {
                    "now": time.time(),
                    # An engine's own words may repeat what it was asked: they are for whoever asked.
                    "error": told["error"] if owner is not None else None,
                    "failed_with": failure.status if failure is not None else None,
                }
    raise Refusal(UNKNOWN)

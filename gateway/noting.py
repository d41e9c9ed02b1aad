"""What a gateway notes of its requests, so that ``doublebuffer doctor`` can tell what is set up badly.

Counts and sizes, kept in this process and told with a sign of life every few seconds: a request costs a few additions,
and the store nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version

from buffer.gateways import GatewayPresence, publish_gateway
from buffer.lanes import Lanes
from buffer.records import NewJob
from buffer.store import StoreUnavailable

TELL_S = 5.0
TOLD_S = 20.0
USER_S = 3600.0
MOST_USERS = 1000
MOST_MODELS = 200
_TASK, _USER = b"x-openwebui-task", b"x-openwebui-user-id"


class Noting:
    def __init__(self) -> None:
        self._presence = GatewayPresence(
            id=secrets.token_hex(8), version=version("doublebuffer"), started_at=time.time()
        )
        self._users: OrderedDict[str, float] = OrderedDict()
        """Whose turn it was → when last, by ``time.monotonic``; never told."""

    def task(self, headers: Mapping[bytes, bytes]) -> None:
        """One of Open WebUI's own requests came."""
        noted = self._presence
        noted.tasks += 1
        noted.tasks_without_header += b"{{" in headers.get(_TASK, b"{{")
        noted.tasks_without_user += not headers.get(_USER)

    def sent(self, job: NewJob) -> None:
        """A job is on its way to the queue."""
        noted = self._presence
        noted.chats += 1
        if job.prompt > noted.prompts.get(job.model, 0) and (
            job.model in noted.prompts or len(noted.prompts) < MOST_MODELS
        ):
            noted.prompts[job.model] = job.prompt
        self._users[job.user] = time.monotonic()
        self._users.move_to_end(job.user)
        if len(self._users) > MOST_USERS:
            self._users.popitem(last=False)

    def told(self) -> GatewayPresence:
        """What is told of this gateway now."""
        until_at = time.monotonic() - USER_S
        while self._users and next(iter(self._users.values())) < until_at:
            self._users.popitem(last=False)
        self._presence.users = len(self._users)
        return self._presence

    async def run(self, pools: Iterable[Lanes]) -> None:
        """Tells all pools, again and again."""
        pools = list(pools)
        while True:
            presence = self.told()
            for lanes in pools:
                with suppress(StoreUnavailable):
                    await publish_gateway(lanes.store, lanes.keys, presence, TOLD_S)
            await asyncio.sleep(TELL_S)

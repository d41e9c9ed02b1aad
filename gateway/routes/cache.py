"""``DELETE /v1/cache``: kept answers are forgotten."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from buffer.cache import EVERY, Shelf
from buffer.job import Failure
from buffer.store import StoreUnavailable
from gateway.auth import Keyring
from gateway.call import JSON, call_of
from gateway.catalog import STORE_AWAY
from gateway.question import purge_name
from gateway.refusal import Refusal
from gateway.services import Services

_NOT_ALLOWED = Failure("Kept answers are forgotten for an admin's key only.", 403, "permission_denied")


def cache_routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["Cache"], default_response_class=Response)
    keyring = Keyring(services.settings.api_keys)
    shelf = Shelf(services.store)

    @router.delete("/v1/cache", summary="Forgets the kept answers of a model, or of all")
    async def purge(request: Request, model: str = "") -> Response:
        sender = keyring.sender(call_of(request.scope).headers)
        if len(keyring) > 1 and not (sender is not None and sender.admin):
            raise Refusal(_NOT_ALLOWED)
        try:
            count = await shelf.purge(purge_name(model) if model else EVERY)
        except StoreUnavailable:
            raise Refusal(STORE_AWAY) from None
        return Response(b'{"object":"cache","forgotten":%d}' % count, headers={"content-type": JSON.decode()})

    return router

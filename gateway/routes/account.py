"""What Ollama's clients ask of its cloud. There is none here, and they are told so in a way that they can take."""

from __future__ import annotations

from fastapi import APIRouter, Response

from buffer.job import Failure
from gateway.call import JSON
from gateway.refusal import Refusal

_STATUS = b'{"cloud":{"disabled":true,"source":"config"}}'
_NO_ACCOUNT = Failure("Doublebuffer has no accounts at ollama.com.", 501, "")
_NO_CLOUD = Failure("Doublebuffer uses nothing of Ollama's cloud.", 404, "")
_ACCOUNT = (("POST", "/api/me"), ("POST", "/api/signout"), ("DELETE", "/api/user/keys/{key}"))
_CLOUD = (
    ("POST", "/api/experimental/web_search"),
    ("POST", "/api/experimental/web_fetch"),
    ("GET", "/api/experimental/model-recommendations"),
)


def account_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)

    async def status() -> Response:
        return Response(_STATUS, headers={"content-type": JSON.decode()})

    async def no_account() -> Response:
        raise Refusal(_NO_ACCOUNT)

    async def no_cloud() -> Response:
        raise Refusal(_NO_CLOUD)

    router.add_api_route("/api/status", status, methods=["GET"])
    for method, path in _ACCOUNT:
        router.add_api_route(path, no_account, methods=[method])
    for method, path in _CLOUD:
        router.add_api_route(path, no_cloud, methods=[method])
    return router

"""``/dashboard``: the page, its figures, one request's timeline, and the sign-in where keys are set."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

import orjson
from fastapi import APIRouter, Request, Response
from msgspec import structs

from buffer.overview import REF_CHARS
from buffer.store import StoreUnavailable
from gateway.auth import ANYBODY, Holder, Keyring
from gateway.call import Call, call_of
from gateway.cors import Cors
from gateway.dashboard.brake import Brake
from gateway.dashboard.sessions import COOKIE, SIGNED_IN_S, Sessions
from gateway.dashboard.timeline import timeline
from gateway.dashboard.watch import Watch
from gateway.intake import owner_of
from gateway.refusal import Refusal
from gateway.services import Services

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_MOST_FORM_BYTES = 4096
_NOBODY = "A valid API key is needed."
_WRONG = "Nobody has this key."
_TOO_MANY = "Too many wrong keys came from this address; try again in {} s."
_AWAY = "The store cannot be reached, so nobody can be signed in; try again once it answers."


class Page:
    """The files of the page, read once."""

    def __init__(self) -> None:
        folder = files("gateway.dashboard").joinpath("page")
        self.files = {one.name: one.read_bytes() for one in folder.iterdir() if one.name[0] not in "._"}

    def answer(self, name: str) -> Response:
        kind = _TYPES[name[name.rindex(".") :]]
        # Of a size that nobody notices; and after an update nobody sees parts of the old one.
        return Response(
            self.files[name], headers={"content-type": f"{kind}; charset=utf-8", "cache-control": "no-cache"}
        )

    def sign_in(self, status: int, why: str = "", *, again_s: int = 0) -> Response:
        """``why``: one sentence of ours, without anything that was sent. ``again_s``: when to try again."""
        text = self.files["sign-in.html"].replace(b"<!-- why -->", why.encode())
        headers = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}
        return Response(text, status, headers | ({"retry-after": str(again_s)} if again_s else {}))


def dashboard_routes(services: Services) -> APIRouter:
    router = APIRouter(prefix="/dashboard", tags=["Dashboard"], include_in_schema=False)
    settings = services.settings
    sessions = Sessions(services.store, Keyring(settings.api_keys))
    brake = Brake(services.store)
    watch = Watch(services.store, services.pools, services.embedding_pools, caching=services.answers is not None)
    pools = [*services.pools.values(), *services.embedding_pools.values()]
    cors = Cors(settings.cors_origins)
    page = Page()

    @router.head("")
    @router.get("")
    async def dashboard(request: Request) -> Response:
        try:
            viewer = await sessions.viewer(call_of(request.scope).headers)
        except StoreUnavailable:
            return page.sign_in(503, _AWAY)
        return page.sign_in(401) if viewer is None else page.answer("index.html")

    @router.get("/files/{name}")
    async def part(name: str) -> Response:
        """Open: they tell nothing, and the sign-in needs them."""
        return (
            page.answer(name)
            if name in page.files and not name.endswith(".html")
            else _json(404, "There is no such file.")
        )

    @router.post("/sign-in")
    async def sign_in(request: Request) -> Response:
        call = call_of(request.scope)
        if cors.refuses(call.headers.get(b"origin"), call.headers):
            return page.sign_in(403, "Sign in on this page itself.")
        try:
            if again_s := await brake.wait_s(call.address):
                return page.sign_in(429, _TOO_MANY.format(again_s), again_s=again_s)
            token = await sessions.sign_in(await _key_of(request))
            if token is None:
                return page.sign_in(401, _WRONG)
            await brake.take_back(call.address)
        except StoreUnavailable:
            return page.sign_in(503, _AWAY)
        return _home(request, token, SIGNED_IN_S)

    @router.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        call = call_of(request.scope)
        if cors.refuses(call.headers.get(b"origin"), call.headers):
            return page.sign_in(403, "Sign out on this page itself.")
        return _home(request, "", 0)

    @router.get("/data")
    async def data(request: Request) -> Response:
        call = call_of(request.scope)
        viewer = await _viewer(sessions, call.headers)
        if isinstance(viewer, Response):
            return viewer
        seen = await watch.look(admin=sessions.sees_all(viewer))
        who = {"name": viewer.name, "signed_in": viewer is not ANYBODY, "admin": sessions.sees_all(viewer)}
        return _json(200, {"viewer": who, "now": time.time(), "seen": orjson.Fragment(seen)})

    @router.get("/requests/{id}")
    async def request_timeline(request: Request, id: str) -> Response:
        call = call_of(request.scope)
        viewer = await _viewer(sessions, call.headers)
        if isinstance(viewer, Response):
            return viewer
        owner = None if sessions.sees_all(viewer) else _owner(call, viewer)
        try:
            whole = (await watch.id_of(id) or id) if owner is None and len(id) == REF_CHARS else id
            return _json(200, await timeline(pools, services.intake, whole, owner))
        except Refusal as refusal:
            return _json(refusal.failure.status, refusal.failure.message)
        except StoreUnavailable:
            return _json(503, "The store cannot be reached at the moment.")

    return router


async def _viewer(sessions: Sessions, headers: Mapping[bytes, bytes]) -> Holder | Response:
    try:
        return await sessions.viewer(headers) or _json(401, _NOBODY)
    except StoreUnavailable:
        return _json(503, _AWAY)


def _owner(call: Call, viewer: Holder) -> str:
    return owner_of(structs.replace(call, key=viewer.name))


async def _key_of(request: Request) -> str:
    """The key that the form was sent with; empty: none."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_FORM_BYTES:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get("key", [""])[0]


def _home(request: Request, token: str, life_s: int) -> Response:
    headers = {"location": "/dashboard", "cache-control": "no-store"}
    answer = Response(None, 303, headers)
    secure = request.scope.get("scheme") == "https"
    answer.set_cookie(COOKIE, token, max_age=life_s, path="/dashboard", httponly=True, samesite="strict", secure=secure)
    return answer


def _json(status: int, told: dict[str, Any] | str) -> Response:
    """``told``: a sentence where there is an error."""
    body = orjson.dumps({"error": told} if isinstance(told, str) else told)
    return Response(body, status, {"content-type": "application/json", "cache-control": "no-store"})

"""``POST /v1/messages`` and ``/v1/messages/count_tokens``: Anthropic's API."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gateway.body import read_body
from gateway.call import JSON, Receive, Scope, Send, call_of
from gateway.dialects import anthropic
from gateway.forms import anthropic_form
from gateway.refusal import Refusal
from gateway.routes.chat import ChatRoute
from gateway.services import Services


class MessagesRoute:
    """Chats in Anthropic's form, as an ASGI application."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = ChatRoute(anthropic_form(call_of(scope).request_id), self._services)
        await route(scope, receive, send)


def count_routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["Chat"], default_response_class=Response)
    settings = services.settings

    @router.post("/v1/messages/count_tokens", summary="About how many tokens a prompt has, in Anthropic's form")
    async def count_tokens(request: Request) -> Response:
        body = await read_body(call_of(request.scope), request.receive, settings.max_body_bytes)
        chat = anthropic.parse_count(body, allow_image_urls=settings.allow_image_urls)
        model = await services.catalog.resolve(chat.model)
        if model is None:
            raise Refusal(anthropic.unknown_model(chat.model))
        count = b'{"input_tokens":%d}' % anthropic.token_count(chat, model.figures.tokens_per_byte)
        return Response(count, headers={"content-type": JSON.decode()})

    return router

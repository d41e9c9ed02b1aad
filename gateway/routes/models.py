"""The lists of models in both dialects, and what Ollama's clients ask a server of itself."""

from __future__ import annotations

import time
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from gateway.body import read_body
from gateway.call import JSON, TEXT, call_of
from gateway.dialects import ollama, openai
from gateway.dialects.listing import Listed
from gateway.models import SIMULATED_OWNER, Model, Models
from gateway.refusal import Refusal
from gateway.services import Services

OLLAMA_VERSION = "0.13.5"
"""The Ollama whose API this is. Clients compare it with the version that brought a feature (thinking as a field, levels
of it, structured output), and Open WebUI refuses what is not integers and dots: neither our own version nor a word."""


def model_routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["Models"], default_response_class=Response)
    started = time.time()
    catalog = services.catalog

    @router.head("/", include_in_schema=False)
    @router.get("/", summary="Ollama's sign of life")
    async def root() -> Response:
        return _response(b"Ollama is running", TEXT)

    @router.head("/api/version", include_in_schema=False)
    @router.get("/api/version", summary="The Ollama whose API this is")
    async def version() -> Response:
        return _response(b'{"version":"%b"}' % OLLAMA_VERSION.encode(), JSON)

    @router.head("/api/tags", include_in_schema=False)
    @router.get("/api/tags", summary="Models, in Ollama's form")
    async def tags() -> Response:
        return _response(ollama.tags(_listed(await catalog.list(), tagged=True), created=started), JSON)

    @router.get("/api/ps", summary="Models in memory, in Ollama's form")
    async def ps() -> Response:
        models = await catalog.list()
        loaded = [(_entry(model, tagged=True), None) for model in models.models if model.loaded]
        return _response(ollama.ps(loaded), JSON)

    @router.post("/api/show", summary="One model, in Ollama's form")
    async def show(request: Request) -> Response:
        body = await read_body(call_of(request.scope), request.receive, services.settings.max_body_bytes)
        name = ollama.show_name(body)
        model = (await catalog.list()).find(name)
        if model is None:
            raise Refusal(ollama.unknown_model(name))
        return _response(ollama.show(_entry(model, tagged=True), created=started), JSON)

    @router.get("/v1/models", summary="Models, in OpenAI's form")
    async def models_list() -> Response:
        return _response(openai.models(_listed(await catalog.list(), tagged=False), created=started), JSON)

    @router.get("/v1/models/{name:path}", summary="One model, in OpenAI's form")
    async def one_model(name: str) -> Response:
        model = (await catalog.list()).find(name)
        if model is None:
            raise Refusal(openai.unknown_model(name))
        return _response(openai.model(_entry(model, tagged=False), created=started), JSON)

    return router


def _listed(models: Models, *, tagged: bool) -> list[Listed]:
    """All models, those that have further names under these too."""
    listed = [_entry(model, tagged=tagged) for model in models.models]
    for model in models.models:
        for name in model.alias_names:
            found = models.find(name)
            if found is not None and found.queue == model.queue:
                listed.append(_entry(replace(found, name=name), tagged=tagged))
    return listed


def _entry(model: Model, *, tagged: bool) -> Listed:
    owner = SIMULATED_OWNER if model.simulated else "library"
    return Listed(model.tagged if tagged else model.name, model.info, owner)


def _response(body: bytes, content_type: bytes) -> Response:
    return Response(body, headers={"content-type": content_type.decode()})

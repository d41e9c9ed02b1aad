"""Answers to what no route answers, in the words of the API that the path belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from buffer.job import Failure
from buffer.store import StoreUnavailable
from gateway.call import Call, call_of
from gateway.catalog import STORE_AWAY
from gateway.dialects.errors import BadRequest
from gateway.forms import failure_answer
from gateway.refusal import UNEXPECTED, ClientLeft, Refusal

_TEXT = "text/plain; charset=utf-8"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def install_errors(app: FastAPI) -> None:
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(StoreUnavailable, _store_away)
    app.add_exception_handler(BadRequest, _refused)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(ClientLeft, _nobody_there)
    app.add_exception_handler(Exception, _unexpected)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    call = call_of(request.scope)
    status = error.status_code
    more = {"Allow": _methods(request)} if status == 405 else error.headers
    if not call.is_openai:
        words = {404: "page not found", 405: "method not allowed"}
        return Response(f"{status} {words.get(status, error.detail)}", status, more, _TEXT)
    if status == 404:
        failure = Failure(f"There is no {call.method} {call.path} here.", 404, "unknown_url")
    elif status == 405:
        failure = Failure(f"{call.path} does not take {call.method}.", 405, "method_not_allowed")
    else:
        failure = Failure(str(error.detail), status, "")
    return failure_response(call, failure, more)


def _methods(request: Request) -> str:
    """What a path takes; each method may be a route of its own."""
    taken = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]
    return ", ".join([*taken, "OPTIONS"])


async def _store_away(request: Request, _: Exception) -> Response:
    return failure_response(call_of(request.scope), STORE_AWAY)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest | Refusal)
    return failure_response(call_of(request.scope), error.failure)


async def _nobody_there(_: Request, __: Exception) -> Response:
    return Response(status_code=499)


async def _unexpected(request: Request, _: Exception) -> Response:
    return failure_response(call_of(request.scope), UNEXPECTED)


def failure_response(call: Call, failure: Failure, more: Mapping[str, str] | None = None) -> Response:
    status, content_type, body, found = failure_answer(failure, call)
    response = Response(body, status, more)
    response.raw_headers = [(b"content-type", content_type), *found, *response.raw_headers]
    return response

"""An engine that refuses a request: the client is told so, with the status it chose, and nobody tries again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.cases.reply import refused
from tests.cases.rig import OAI, OLL, Bench, run_bench, settings
from tests.rig.script import Status

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAYS = [
    ("openai", {"stream": True, "max_tokens": 9000}),
    ("openai", {"stream": False, "max_tokens": 9000}),
    ("ollama", {"options": {"num_predict": 9000}}),
    ("ollama", {"stream": False, "options": {"num_predict": 9000}}),
]
TOLD = "requested 9000 tokens, limit 4096"
REFUSALS: dict[str, tuple[str, Status]] = {
    "vLLM's older form": (
        OAI,
        Status(400, {"object": "error", "message": TOLD, "type": "BadRequestError", "code": 400}),
    ),
    "vLLM's newer form": (
        OAI,
        Status(400, {"error": {"message": TOLD, "type": "BadRequestError", "param": "max_tokens", "code": 400}}),
    ),
    "a text in the object": (OAI, Status(400, {"error": TOLD})),
    "a detail": (OAI, Status(400, {"detail": TOLD})),
    "plain text": (OAI, Status(400, TOLD, "text/plain")),
    "a list of details": (OAI, Status(422, {"detail": [{"loc": ["body"], "msg": TOLD, "type": "value_error"}]})),
    "an error after a chunked head": (OAI, Status(413, {"error": {"message": TOLD, "type": "x", "code": "y"}})),
    "Ollama's form": (OLL, Status(400, {"error": TOLD})),
    "Ollama's form in another type": (OLL, Status(400, {"error": TOLD}, "text/plain; charset=utf-8")),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with run_bench(more=settings(retries=2)) as found:
        yield found


@pytest.mark.parametrize(("api", "how"), WAYS)
@pytest.mark.parametrize("form", REFUSALS)
async def test_a_refusal_is_passed_on_once(bench: Bench, form: str, api: str, how: dict[str, Any]) -> None:
    model, refusal = REFUSALS[form]
    engine = bench.engine(model)
    engine.script = [refusal]
    reply = await bench.chat(api, model, **how)
    path = "/api/chat" if api == "ollama" else "/v1/chat/completions"
    assert refused(reply, path, refusal.code), (reply.status, reply.headers, reply.body)
    assert b"limit 4096" in reply.body
    if api == "openai":
        assert reply.json()["error"]["type"] in ("invalid_request_error", "BadRequestError")
    assert len(engine.requests) == 1


@pytest.mark.parametrize(("api", "how"), WAYS)
async def test_an_error_inside_a_good_status_before_any_word(bench: Bench, api: str, how: dict[str, Any]) -> None:
    """Some engines open their stream first and look at the request afterwards."""
    bench.oai.script = [{"error": {"message": TOLD, "type": "BadRequestError", "code": 400}}]
    reply = await bench.chat(api, OAI, **how)
    assert refused(reply, "/api/chat" if api == "ollama" else "/v1/chat/completions"), (reply.status, reply.body)
    assert b"limit 4096" in reply.body
    assert len(bench.oai.requests) == 1


@pytest.mark.parametrize(("api", "how"), WAYS)
async def test_a_refusal_without_words(bench: Bench, api: str, how: dict[str, Any]) -> None:
    for refusal in (
        Status(400, ""),
        Status(400, "<html><body>Bad Request</body></html>", "text/html"),
        Status(400, {}),
    ):
        bench.oai.requests.clear()
        bench.oai.script = [refusal]
        reply = await bench.chat(api, OAI, **how)
        assert refused(reply, "/api/chat" if api == "ollama" else "/v1/chat/completions"), (reply.status, reply.body)
        assert b"<html>" not in reply.body
        assert len(bench.oai.requests) == 1


@pytest.mark.parametrize(("api", "how"), WAYS)
async def test_only_what_may_pass_is_tried_again(bench: Bench, api: str, how: dict[str, Any]) -> None:
    """The setting works: a failure of the engine's own is tried again, until it answers."""
    bench.oai.once += [[Status(500, {"error": {"message": "oom", "type": "x"}})] for _ in range(2)]
    reply = await bench.chat(api, OAI, **how)
    assert reply.content
    assert len(bench.oai.requests) == 3

from __future__ import annotations

import json
from typing import Any

import pytest

from backends.failures import ContextTooLongError, broken, clean, from_payload, from_status


def failed(status: int, body: Any) -> Any:
    return from_status("b", status, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "kind", "shown"),
    [
        (400, "client", 400),
        (404, "client", 404),
        (413, "client", 413),
        (422, "client", 422),
        (401, "client", 502),
        (403, "client", 502),
        (429, "refused", 503),
        (503, "refused", 503),
        (500, "failed", 502),
        (501, "client", 400),
        (502, "failed", 502),
        (504, "failed", 502),
        (301, "failed", 502),
        (408, "failed", 502),
    ],
)
def test_statuses(status: int, kind: str, shown: int) -> None:
    error = failed(status, {"error": {"message": "boom"}})
    assert (error.kind, error.status) == (kind, shown)


@pytest.mark.parametrize(
    "body",
    [
        {"error": "limit 4096"},
        {"error": {"message": "limit 4096"}},
        {"object": "error", "message": "limit 4096", "code": 400},
        {"detail": "limit 4096"},
        {"detail": [{"msg": "limit 4096", "input": "secret"}]},
        b"limit 4096",
    ],
)
def test_shapes(body: Any) -> None:
    assert failed(400, body).message == "limit 4096"


@pytest.mark.parametrize("body", [b"", b"<!DOCTYPE html><p>x", b"<html>", {}, {"error": {}}, [1], b"null"])
def test_bodies_without_words(body: Any) -> None:
    assert failed(400, body).message == "Back end 'b' refused the request with status 400."
    assert failed(500, body).message == "Back end 'b' failed with status 500: It gave no reason."


def test_our_key_is_named_and_the_clients_is_not() -> None:
    error = failed(401, {"error": "Unauthorized: sk-secret"})
    assert error.message == "Back end 'b' does not accept Doublebuffer's key."
    assert error.code == "upstream_auth"


VLLM_LONG = (
    "This model's maximum context length is 1000 tokens. However, you requested 0 output tokens and your prompt "
    "contains at least 4000 input tokens, for a total of at least 4001 tokens."
)


@pytest.mark.parametrize(
    ("error", "share"),
    [
        ({"message": "request (4000 tokens) exceeds the available context size (1000 tokens), try increasing it",
          "type": "exceed_context_size_error", "n_prompt_tokens": 4000, "n_ctx": 1000}, 0.25),
        ({"message": VLLM_LONG, "param": "input_tokens"}, 0.25),
        ({"message": "The prompt is too long", "param": "input_text"}, 0.5),
        ({"message": "the prompt exceeds the context window"}, 0.5),
        ({"message": "too long", "code": "context_length_exceeded"}, 0.5),
    ],
)  # fmt: skip
def test_prompt_that_is_too_long(error: dict[str, Any], share: float) -> None:
    found = failed(400, {"error": error})
    assert isinstance(found, ContextTooLongError)
    assert (found.kind, found.status, found.code, found.param) == ("client", 400, "context_length_exceeded", "messages")
    assert found.share == share


def test_unknown_model() -> None:
    error = failed(404, {"error": {"message": "The model `x` does not exist.", "code": 404}})
    assert (error.code, error.param) == ("model_not_found", "model")
    assert failed(404, {"detail": "Not Found"}).code == ""


def test_numbers_are_no_codes() -> None:
    assert failed(400, {"error": {"message": "x", "code": 400, "param": "stop"}}).code == ""
    assert failed(400, {"error": {"message": "x", "code": 400, "param": "stop"}}).param == "stop"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("cannot open /root/models/a b.gguf", "cannot open … b.gguf"),
        ('File "/usr/lib/python3/x.py", line 3', 'File "…", line 3'),
        ("at C:\\srv\\vllm\\x.py now", "at … now"),
        ("model Qwen/Qwen3-14B not found", "model Qwen/Qwen3-14B not found"),
        ("use and/or 1/2/3", "use and/or 1/2/3"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("two\n  lines", "two lines"),
        (
            "1 validation error:\n {'type': 'x', 'loc': ('body',), 'msg': 'Field required', 'input': {'a': 'secret'}}",
            "Field required",
        ),
        ("2 validation errors for Chat", "The request is not valid."),
    ],
)
def test_words_that_may_be_passed_on(message: str, expected: str) -> None:
    assert clean(message) == expected


def test_long_messages_are_cut() -> None:
    assert len(clean("x" * 5000)) == 500


def test_error_within_an_answer() -> None:
    assert from_payload("b", "boom").kind == "failed"
    assert from_payload("b", {"message": "boom", "code": 422}).kind == "client"
    for code in (401, 403):
        ours = from_payload("b", {"message": "Invalid key sk-secret", "code": code})
        assert (ours.kind, ours.status, ours.code) == ("client", 502, "upstream_auth")
        assert "secret" not in ours.message
    late = broken(from_payload("b", "boom"))
    assert (late.kind, late.message) == ("broken", "Back end 'b' broke off with an error: boom")

import json

import pytest
from ollama._types import ChatResponse

from buffer.job import Content, End, Failure, Finish, Reasoning, Usage
from gateway.dialects import ollama
from tests.dialects.events import CALLS, CREATED, FAILURE, ID, chat, ndjson, stream, whole


def asked(**fields):
    return chat(front="ollama", **fields)


def lines(events, end=None, chat=None, **more):
    found = ndjson(stream(ollama, chat or asked(), events, end, **more))
    for line in found:
        if "error" not in line:
            ChatResponse.model_validate(line)
    return found


@pytest.mark.parametrize("before", [[], [Content("one"), Content("two")]])
def test_a_failure_on_the_way_is_the_last_line(before):
    found = lines(before, FAILURE)
    assert found[-1] == {"error": "backend connection lost"}
    assert not any(line.get("done") for line in found)


def test_a_client_that_skips_error_lines_reads_the_failure_as_text():
    found = lines([Content("one")], FAILURE, failure_as_text=True)
    assert "backend connection lost" in found[-2]["message"]["content"]
    assert found[-1] == {"error": "backend connection lost"}


def test_a_failure_after_the_whole_answer_is_none():
    assert lines([Content("x"), Finish("stop")], FAILURE)[-1]["done"] is True
    assert whole(ollama, asked(), [Content("x"), Finish("stop")], FAILURE)[0] == 200


@pytest.mark.parametrize(("end", "status"), [(FAILURE, 502), (End("expired"), 503), (End("cancelled"), 499)])
def test_a_failure_instead_of_a_whole_answer(end, status):
    found, body = whole(ollama, asked(), [Content("half")], end)
    assert (found, list(body)) == (status, ["error"])


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (Failure("full", 503, "queue_full"), "server busy, please try again.  maximum pending requests exceeded"),
        (Failure("no key", 401, "invalid_api_key"), "unauthorized"),
        (Failure("503"), "The back end answered: 503"),
        (Failure('{"a":1}'), 'The back end answered: {"a":1}'),
        (Failure("  "), "The answer could not be completed."),
        (Failure("a\u2028b"), "a\u2028b"),
    ],
)
def test_error_bodies_are_one_sentence(failure, text):
    assert json.loads(ollama.error(failure)) == {"error": text}
    assert len(ollama.error(failure).decode().splitlines()) == 1


def test_a_whole_answer():
    events = [
        Reasoning("h"),
        Reasoning("m"),
        Content("H"),
        Content("i"),
        *CALLS,
        Usage(3, 4, prompt_ns=10, completion_ns=20),
    ]
    status, body = whole(ollama, asked(), events)
    ChatResponse.model_validate(body)
    assert status == 200
    assert body == {
        "model": "Org/Model-X",
        "created_at": "2026-11-30T00:53:22.250000Z",
        "message": {
            "role": "assistant",
            "content": "Hi",
            "thinking": "hm",
            "tool_calls": [
                {"id": "c0", "function": {"index": 0, "name": "w", "arguments": {"city": "Tokyo"}}},
                {"id": "c2", "function": {"index": 1, "name": "now", "arguments": {}}},
            ],
        },
        "done": True,
        "done_reason": "stop",
        "total_duration": 2_000_000_000,
        "load_duration": 500_000_000,
        "prompt_eval_count": 3,
        "prompt_eval_duration": 10,
        "eval_count": 4,
        "eval_duration": 20,
    }


def test_a_heartbeat_is_an_empty_piece():
    (line,) = ndjson(ollama.Stream(asked(), id=ID, created=CREATED).heartbeat(CREATED))
    assert line == {
        "model": "Org/Model-X",
        "created_at": "2026-11-30T00:53:20.250000Z",
        "message": {"role": "assistant", "content": ""},
        "done": False,
    }

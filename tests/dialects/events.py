"""Reading answers back the way a client does."""

import json

from openai.types.chat import ChatCompletionChunk

from buffer.job import Chat, End, Failure, Finish, ToolDelta

ID = "chatcmpl-abc"
CREATED = 1_796_000_000.25
TOKENS = '[{"token":"a","logprob":-0.1,"bytes":[97],"top_logprobs":[]}]'
CALLS = [
    ToolDelta(0, "c0", "w"),
    ToolDelta(0, arguments='{"ci'),
    ToolDelta(0, arguments='ty":"Tok'),
    ToolDelta(0, arguments='yo"}'),
    ToolDelta(2, "c2", "now"),
    Finish("tool_calls"),
]
FAILURE = End("failed", Failure("backend connection lost"))


def chat(**fields):
    return Chat("Org/Model-X", [], **fields)


def sse(data: bytes):
    """The chunks of a stream, with ``[DONE]`` as text; comments left out."""
    assert data.endswith(b"\n\n")
    events = [event for event in data.decode().split("\n\n")[:-1] if not event.startswith(":")]
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [event[6:] if event == "data: [DONE]" else json.loads(event[6:]) for event in events]


def ndjson(data: bytes):
    """The objects of a stream, its lines split as Ollama's client splits them."""
    text = data.decode()
    assert text.endswith("\n")
    assert text.splitlines() == text.split("\n")[:-1]
    return [json.loads(line) for line in text.splitlines()]


def stream(dialect, asked, events, end=None, **more):
    answer = dialect.Stream(asked, id=ID, created=CREATED, **more)
    return answer.feed(events, CREATED + 1) + answer.end(end or End("done"), CREATED + 2, queued_s=0.5)


def whole(dialect, asked, events, end=None):
    answer = dialect.Whole(asked, id=ID, created=CREATED)
    assert answer.feed(events, CREATED + 1) == b""
    status, body = answer.end(end or End("done"), CREATED + 2, queued_s=0.5)
    return status, json.loads(body)


def deltas(data):
    return [chunk["choices"][0]["delta"] for chunk in sse(data)[:-1] if chunk["choices"]]


def joined(data, index=0):
    """Text, thinking, calls and reason of one answer, as a client joins them."""
    text, thoughts, reason = "", "", None
    calls: dict[int, dict] = {}
    for chunk in sse(data)[:-1]:
        ChatCompletionChunk.model_validate(chunk, strict=False)
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            delta = choice["delta"]
            text += delta.get("content") or ""
            thoughts += delta.get("reasoning") or ""
            assert delta.get("reasoning") == delta.get("reasoning_content")
            for piece in delta.get("tool_calls", []):
                call = calls.setdefault(piece["index"], {"id": "", "name": "", "arguments": ""})
                call["id"] += piece.get("id", "")
                call["name"] += piece["function"].get("name", "")
                call["arguments"] += piece["function"].get("arguments", "")
            assert reason is None, "a word after the end"
            reason = choice["finish_reason"]
    return text, thoughts, [calls[place] for place in sorted(calls)], reason

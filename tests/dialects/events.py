"""Reading answers back the way a client does."""

import json

from buffer.job import Chat, End

ID = "chatcmpl-abc"
CREATED = 1_796_000_000.25


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

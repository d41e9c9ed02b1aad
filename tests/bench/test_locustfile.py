"""The file for Locust, with something in Locust's place."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "deploy" / "locustfile.py"


class Event:
    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.fired: list[dict[str, Any]] = []

    def add_listener(self, listener: Any) -> Any:
        self.heard.append(listener)
        return listener

    def fire(self, **told: Any) -> None:
        self.fired.append(told)


class Response:
    """Streams some pieces, cut wherever they are."""

    status_code = 200

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.request_meta: dict[str, Any] = {}
        self.failures: list[str] = []

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def failure(self, text: str) -> None:
        self.failures.append(text)

    def iter_content(self, chunk_size: int | None) -> Any:
        assert chunk_size is None, "anything else waits until so much is there"
        return iter(self.pieces)


@pytest.fixture
def locustfile(monkeypatch: pytest.MonkeyPatch) -> Any:
    locust = ModuleType("locust")
    parser = ModuleType("locust.argument_parser")
    events = SimpleNamespace(init_command_line_parser=Event())
    marks = {"HttpUser": object, "between": lambda *_: None, "task": lambda weight: lambda f: f, "events": events}
    for name, value in marks.items():
        setattr(locust, name, value)
    parser.LocustArgumentParser = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "locust", locust)
    monkeypatch.setitem(sys.modules, "locust.argument_parser", parser)
    spec = spec_from_file_location("locustfile", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chat(locustfile: Any, response: Response) -> list[dict[str, Any]]:
    """What it told Locust of an answer, beside the answer itself."""
    person = locustfile.Person()
    person.model = "m"
    told = Event()
    person.environment = SimpleNamespace(events=SimpleNamespace(request=told))
    person.client = SimpleNamespace(post=lambda *_, **__: response)
    person.chat("short chat", *locustfile.SHORT)
    return told.fired


def test_the_first_word_is_a_figure_of_its_own(locustfile: Any) -> None:
    role = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    word = b'data: {"choices":[{"delta":{"reasoning":"a"}}]}\n\n'
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    response = Response(role + word[:9], word[9:] + word, end)
    fired = chat(locustfile, response)
    assert [(one["request_type"], one["name"]) for one in fired] == [("FIRST", "short chat")]
    assert 0 < fired[0]["response_time"] <= response.request_meta["response_time"]
    assert response.failures == []


def test_an_answer_without_an_end_is_a_failure(locustfile: Any) -> None:
    cut, broken = Response(b'data: {"choices":[]}\n\n'), Response(b'data: {"error":{"message":"x"}}\n\n')
    assert chat(locustfile, cut) == chat(locustfile, broken) == []
    assert (cut.failures, broken.failures) == (["cut off"], ["error in the answer"])


def test_prompts_are_about_as_long_as_said_and_never_the_same(locustfile: Any) -> None:
    for tokens, _ in (locustfile.SHORT, locustfile.MIDDLE, locustfile.LONG):
        one, other = (locustfile.messages(tokens) for _ in range(2))
        assert sum(len(message["content"]) for message in one) == pytest.approx(tokens * 4, rel=0.02)
        assert len(one[-1]["content"]) < 100
        assert one[0]["content"][:30] != other[0]["content"][:30]

"""The lines of an offline batch's file: what is wrong with them, and where they are, however the file comes in."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.offline_record import BatchError, LineUsage
from gateway.dialects import offline
from gateway.dialects.offline import MOST_ERRORS, MOST_LINES, Checker, Line, check_line
from gateway.dialects.offline_results import answer_line, error_line, usage_of

CHATS = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def fields(**more: Any) -> dict[str, Any]:
    found = {"custom_id": "a", "method": "POST", "url": CHATS, "body": BODY} | more
    return {name: value for name, value in found.items() if value is not ...}


def line(**more: Any) -> bytes:
    return json.dumps(fields(**more)).encode()


def numbered(count: int) -> list[bytes]:
    return [line(custom_id=str(number)) for number in range(count)]


def look_through(data: bytes, size: int = 1000) -> tuple[Checker, list[bytes]]:
    """What a checker says of a file that comes in pieces of that size; and the lines that it found."""
    checker = Checker(CHATS)
    places: list[tuple[int, int]] = []
    for at in range(0, len(data), size):
        places += checker.feed(data[at : at + size])
    places += checker.finish()
    return checker, [data[offset : offset + length] for offset, length in places]


def problems(data: bytes) -> list[tuple[str, int | None]]:
    return [(error.code, error.line) for error in look_through(data)[0].errors]


def test_a_good_line_is_taken_apart() -> None:
    found = check_line(line(custom_id="x", extra=1), 7, CHATS)
    assert isinstance(found, Line)
    assert (found.number, found.custom_id, found.model, json.loads(found.body)) == (7, "x", "m", BODY)


@pytest.mark.parametrize(
    ("data", "code", "param"),
    [
        (b"{", "invalid_json_line", None),
        (b"[]", "invalid_json_line", None),
        (b"7", "invalid_json_line", None),
        (b"null", "invalid_json_line", None),
        (b'"text"', "invalid_json_line", None),
        (line() + line(), "invalid_json_line", None),
        (b'{"custom_id": "\xff"}', "invalid_json_line", None),
        (b"[" * 100_000, "invalid_json_line", None),
        (line(body={"model": "m", "x": json.loads("[" * 200 + "]" * 200)}), "invalid_json_line", None),
        (line(custom_id=...), "missing_required_parameter", "custom_id"),
        (line(method=...), "missing_required_parameter", "method"),
        (line(url=...), "missing_required_parameter", "url"),
        (line(body=...), "missing_required_parameter", "body"),
        (line(body={}), "missing_required_parameter", "body.model"),
        (line(custom_id=""), "invalid_custom_id", "custom_id"),
        (line(custom_id=1), "invalid_custom_id", "custom_id"),
        (line(custom_id=None), "invalid_custom_id", "custom_id"),
        (line(custom_id="x" * 513), "invalid_custom_id", "custom_id"),
        (line(method="GET"), "invalid_method", "method"),
        (line(method="post"), "invalid_method", "method"),
        (line(url="/v1/embeddings"), "url_mismatch", "url"),
        (line(url=f"https://api.openai.com{CHATS}"), "url_mismatch", "url"),
        (line(body=None), "invalid_body", "body"),
        (line(body=[BODY]), "invalid_body", "body"),
        (line(body="{}"), "invalid_body", "body"),
        (line(body={"model": ""}), "invalid_model", "body.model"),
        (line(body={"model": None}), "invalid_model", "body.model"),
        (line(body={"model": ["m"]}), "invalid_model", "body.model"),
        (line(body=BODY | {"stream": True}), "stream_unsupported", "body.stream"),
        (line(body=BODY | {"stream": "yes"}), "stream_unsupported", "body.stream"),
    ],
)
def test_a_bad_line_is_told_of(data: bytes, code: str, param: str | None) -> None:
    found = check_line(data, 3, CHATS)
    assert isinstance(found, BatchError)
    assert (found.code, found.param, found.line) == (code, param, 3)
    assert found.message.endswith(".")
    assert problems(numbered(1)[0] + b"\n" + data)[0] == (code, 2)


@pytest.mark.parametrize("stream", [False, None])
def test_stream_may_be_off(stream: bool | None) -> None:
    assert isinstance(check_line(line(body=BODY | {"stream": stream}), 1, CHATS), Line)


def test_a_file_may_begin_with_a_mark_and_end_with_blank_lines() -> None:
    one, two = numbered(2)
    for end in (b"", b"\n", b"\r\n", b"\n\n", b"\r\n  \r\n\n"):
        checker, found = look_through(b"\xef\xbb\xbf" + one + b"\r\n" + two + end)
        assert (checker.errors, checker.total, checker.model) == ([], 2, "m")
        assert [part.strip() for part in found] == [one, two]


def test_blank_lines_in_the_middle_are_wrong() -> None:
    one, two = numbered(2)
    assert problems(b"\n" + one + b"\n \n\n" + two) == [("invalid_json_line", number) for number in (1, 3, 4)]


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\n \r\n"])
def test_an_empty_file_is_wrong(data: bytes) -> None:
    assert problems(data) == [("empty_file", None)]


def test_an_id_that_comes_twice_is_wrong() -> None:
    one, two, three = numbered(3)
    assert problems(b"\n".join([one, two, one, three, two])) == [("duplicate_custom_id", 3), ("duplicate_custom_id", 5)]


def test_the_lines_ask_for_one_model_however_they_spell_it() -> None:
    names = ["qwen3:14b", "Qwen3-14B", "qwen3-14b:latest", "other"]
    data = b"\n".join(line(custom_id=str(at), body=BODY | {"model": name}) for at, name in enumerate(names))
    checker, _ = look_through(data)
    assert ([(one.code, one.line) for one in checker.errors], checker.model) == ([("model_mismatch", 4)], "qwen3:14b")


def test_so_many_lines_and_no_more() -> None:
    lines = numbered(MOST_LINES + 1)
    checker, found = look_through(b"\n".join(lines[:-1]) + b"\n", 65_536)
    assert (checker.errors, checker.total, len(found)) == ([], MOST_LINES, MOST_LINES)
    assert problems(b"{\n" + b"\n".join(lines)) == [("too_many_tasks", None)]


def test_blank_lines_end_somewhere() -> None:
    assert problems(b"\n" * 2 * MOST_LINES) == [("empty_file", None)]
    checker, _ = look_through(b"\n" * 100_000_000, 1_000_000)
    assert [error.code for error in checker.errors] == ["too_many_tasks"]


def test_it_tells_of_so_many_problems_and_no_more() -> None:
    assert problems(b"{\n" * 1000) == [("invalid_json_line", number) for number in range(1, MOST_ERRORS + 1)]
    assert len(problems(b"\n" * 1000 + line())) == MOST_ERRORS


def test_a_line_too_long_is_told_of_and_those_behind_it_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "MOST_LINE_BYTES", 5000)
    one, two, three = numbered(3)
    long = line(custom_id="long", body=BODY | {"x": "y" * 5000})
    checker, found = look_through(b"\n".join([one, long, two, three]), 999)
    assert [(error.code, error.line) for error in checker.errors] == [("line_too_long", 2)]
    assert found == [one, two, three]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_pieces_do_not_matter(more: st.DataObject) -> None:
    kinds = st.sampled_from([line, lambda **_: b"", lambda **_: b"{", lambda **_: b"\xef\xbb\xbf"])
    drawn = more.draw(st.lists(st.tuples(kinds, st.integers(0, 3)), max_size=8))
    data = b"\r\n".join(kind(custom_id=str(id)) for kind, id in drawn)
    whole, found = look_through(data, max(1, len(data)))
    cut, also = look_through(data, more.draw(st.integers(1, 200)))
    assert (cut.errors, cut.total, also) == (whole.errors, whole.total, found)


def test_a_large_file_is_never_in_memory() -> None:
    """50,000 lines of 500 bytes each, which are made as they are read."""
    checker, filler, count = Checker(CHATS), "x" * 400, 0
    tracemalloc.start()
    for at in range(0, MOST_LINES, 100):
        chunk = b"".join(
            b'{"custom_id":"%d","method":"POST","url":"%s","body":{"model":"m","x":"%s"}}\n'
            % (number, CHATS.encode(), filler.encode())
            for number in range(at, at + 100)
        )
        for _ in checker.feed(chunk):
            count += 1
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, list(checker.finish()), checker.errors) == (MOST_LINES, [], [])
    assert held < 12 * 1024**2


# --- what is written


def test_an_answer_is_one_line() -> None:
    body = b'{\n "a": [1, 2],\r\n "b": "x\xe2\x80\xa8y\xc2\x85"}'
    data = answer_line("batch_req_1", 'odd "id"\u2028\n', 200, "req", body)
    assert data.endswith(b"}\n")
    assert len(data.decode().splitlines()) == 1
    assert json.loads(data) == {
        "id": "batch_req_1",
        "custom_id": 'odd "id"\u2028\n',
        "response": {"status_code": 200, "request_id": "req", "body": {"a": [1, 2], "b": "x\u2028y\x85"}},
        "error": None,
    }


def test_what_was_never_answered_says_why() -> None:
    assert json.loads(error_line("batch_req_1", "a", "batch_expired", "Too late.")) == {
        "id": "batch_req_1",
        "custom_id": "a",
        "response": None,
        "error": {"code": "batch_expired", "message": "Too late."},
    }


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (b'{"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}', LineUsage(7, 0, 3, 0)),
        (
            b'{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2},'
            b'"completion_tokens_details":{"reasoning_tokens":1}}}',
            LineUsage(7, 2, 3, 1),
        ),
        (b'{"usage":{"prompt_tokens":7,"total_tokens":7}}', LineUsage(7)),
        (b'{"usage":{"prompt_tokens":-7,"completion_tokens":%d}}' % 10**30, LineUsage(0, 0, 10**9, 0)),
        (b'{"usage":null}', LineUsage()),
        (b"{}", LineUsage()),
        (b"no JSON", LineUsage()),
        (b'{"usage":{"prompt_tokens":"many"}}', LineUsage()),
    ],
)
def test_tokens_are_read_from_an_answer(body: bytes, usage: LineUsage) -> None:
    assert usage_of(body) == usage

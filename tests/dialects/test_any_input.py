"""Whatever comes in, a chat or ``BadRequest`` comes out; however an answer is cut up, it is the same answer."""

import contextlib
import itertools
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.job import (
    Content,
    End,
    Failure,
    Finish,
    Logprobs,
    Origin,
    Reasoning,
    ToolDelta,
    Usage,
    decode_chat,
    encode_chat,
)
from gateway.dialects import ollama, openai
from gateway.dialects.errors import BadRequest
from tests.dialects.events import CREATED, ID, chat, ndjson, sse

NAMES = re.findall(
    r"\w+",
    """
model messages stream stream_options temperature top_p top_k min_p seed stop n tools tool_choice response_format format
options think reasoning reasoning_effort mode chat_template_kwargs enable_thinking thinking keep_alive logprobs
top_logprobs max_tokens max_completion_tokens num_predict truncate system name role content images tool_calls function
arguments index id type text image_url url input_audio data json_schema schema strict effort include_usage exclude
structured_outputs guided_json guided_regex json parallel_tool_calls include_reasoning enabled num_ctx shift
""",
)
WORDS = ["", "user", "assistant", "tool", "system", "text", "image_url", "json_schema", "high", "none", "true", "auto"]
WORDS += ["5m", "-1", "json", "aGk=", "data:image/png;base64,aGk=", "http://127.0.0.1/x", '{"a":1}']
texts = st.sampled_from(WORDS) | st.text(max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system"]) | values},
        optional={
            "content": texts | values,
            "images": values,
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {"function": st.fixed_dictionaries({"name": texts}, optional={"arguments": values})}
                )
                | values,
                max_size=3,
            )
            | values,
            "tool_call_id": texts,
            "thinking": texts,
        },
    ),
    max_size=4,
)
bodies = st.dictionaries(st.sampled_from(NAMES), values, max_size=6).flatmap(
    lambda rest: st.fixed_dictionaries({"model": texts | values, "messages": messages | values}).map(
        lambda body: {**rest, **body}
    )
)


@pytest.mark.parametrize("dialect", [openai, ollama])
@given(body=bodies)
@settings(max_examples=400, deadline=None)
def test_any_json_object(dialect, body):
    data = json.dumps(body).encode()
    try:
        found = dialect.parse_chat(data, allow_image_urls=True)
    except BadRequest as refused:
        failure = refused.failure
    else:
        again = decode_chat(encode_chat(found))
        assert encode_chat(again) == encode_chat(found)
        # Ollama's older word for it counts where the newer says nothing.
        assert again.model == (body["model"] or body["name"])
        return
    assert failure.status == 400
    json.loads(dialect.error(failure))


@pytest.mark.parametrize("dialect", [openai, ollama])
@given(body=st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=200, deadline=None)
def test_any_bytes(dialect, body):
    with contextlib.suppress(BadRequest):
        dialect.parse_chat(body)


@pytest.mark.parametrize("dialect", [openai, ollama])
@given(cut=st.integers(0, 200), junk=st.binary(max_size=3))
def test_a_damaged_body(dialect, cut, junk):
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "é😀\u2028"}], "options": {"a": [1, {"b": None}]}}
    ).encode()
    with contextlib.suppress(BadRequest):
        dialect.parse_chat(body[:cut] + junk + body[cut + 1 :])


indexes = st.integers(0, 2)
answer_texts = st.text(max_size=6) | st.sampled_from(["\u2028", "\x85", "\ud800", "\n", ""])
events = st.lists(
    st.builds(Content, answer_texts, indexes)
    | st.builds(Reasoning, answer_texts, indexes)
    | st.builds(
        ToolDelta, st.integers(0, 3), st.sampled_from(["", "i"]), st.just("f"), st.sampled_from(["", "{", "}"]), indexes
    )
    | st.builds(Logprobs, st.sampled_from(["[]", '[{"token":"a"}]', "[\n]"]), indexes)
    | st.builds(Finish, st.sampled_from(["stop", "length", "tool_calls", "content_filter"]), indexes)
    | st.builds(Usage, st.integers(0, 9), st.integers(0, 9))
    | st.builds(Origin, st.sampled_from(["", "fp"])),
    max_size=14,
)
ends = st.sampled_from([End("done"), End("failed", Failure("x")), End("expired"), End("cancelled")])
chats = st.builds(
    chat,
    n=st.just(3),
    think=st.sampled_from(["unset", "off", "on"]),
    show_reasoning=st.booleans(),
    logprobs=st.booleans(),
    include_usage=st.booleans(),
    parallel_tool_calls=st.sampled_from([None, False]),
)


def cut_up(items, cuts):
    edges = [0, *sorted(min(cut, len(items)) for cut in cuts), len(items)]
    return [items[start:stop] for start, stop in itertools.pairwise(edges)]


@pytest.mark.parametrize("dialect", [openai, ollama])
@given(asked=chats, found=events, cuts=st.lists(st.integers(0, 14), max_size=5), end=ends)
@settings(max_examples=300, deadline=None)
def test_an_answer_is_the_same_however_it_is_cut(dialect, asked, found, cuts, end):
    at_once = dialect.Stream(asked, id=ID, created=CREATED)
    expected = at_once.feed(found, CREATED) + at_once.end(end, CREATED)
    in_pieces = dialect.Stream(asked, id=ID, created=CREATED)
    data = b"".join(in_pieces.feed(part, CREATED) for part in cut_up(found, cuts)) + in_pieces.end(end, CREATED)
    assert data == expected

    once = dialect.Whole(asked, id=ID, created=CREATED)
    once.feed(found, CREATED)
    pieces = dialect.Whole(asked, id=ID, created=CREATED)
    for part in cut_up(found, cuts):
        pieces.feed(part, CREATED)
    assert once.end(end, CREATED) == pieces.end(end, CREATED)


@given(asked=chats, found=events, end=ends)
@settings(max_examples=300, deadline=None)
def test_a_stream_has_one_end_and_says_what_the_whole_answer_says(asked, found, end):
    answer = openai.Stream(asked, id=ID, created=CREATED)
    chunks = sse(answer.feed(found, CREATED) + answer.end(end, CREATED))
    assert chunks.count("[DONE]") == 1
    assert chunks[-1] == "[DONE]"
    gathered = openai.Whole(asked, id=ID, created=CREATED)
    gathered.feed(found, CREATED)
    status, body = gathered.end(end, CREATED)
    errors = [chunk for chunk in chunks if "error" in chunk]
    assert len(errors) == (status != 200)
    if status != 200:
        return
    for choice in json.loads(body)["choices"]:
        mine = [c["choices"][0] for c in chunks[:-1] if c["choices"] and c["choices"][0]["index"] == choice["index"]]
        text = "".join(piece["delta"].get("content") or "" for piece in mine)
        assert text == (choice["message"]["content"] or "")
        thoughts = "".join(piece["delta"].get("reasoning") or "" for piece in mine)
        assert thoughts == choice["message"].get("reasoning", "")
        assert [piece["finish_reason"] for piece in mine if piece["finish_reason"]] == [choice["finish_reason"]]


@given(asked=chats, found=events, end=ends)
@settings(max_examples=300, deadline=None)
def test_lines_have_one_end(asked, found, end):
    answer = ollama.Stream(asked, id=ID, created=CREATED)
    lines = ndjson(answer.feed(found, CREATED) + answer.end(end, CREATED))
    last = [line for line in lines if line.get("done") or "error" in line]
    assert last == lines[-1:]
    assert all(re.fullmatch(r"[\d-]+T[\d:]+\.\d{6}Z", line["created_at"]) for line in lines if "error" not in line)

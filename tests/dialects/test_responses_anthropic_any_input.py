"""Whatever an agent sends, a chat or ``BadRequest`` comes out; however an answer is cut up, it is the same answer."""

import contextlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.job import Chat, End, decode_chat, encode_chat
from gateway.dialects import anthropic, responses
from gateway.dialects.errors import BadRequest
from gateway.prompt import prompt_parts
from policy.prefix import Mixed
from tests.dialects.events import CREATED
from tests.dialects.test_anthropic_answers import events as anthropic_events
from tests.dialects.test_any_input import cut_up, ends
from tests.dialects.test_any_input import events as any_events
from tests.dialects.test_responses_answers import events as responses_events

NAMES = re.findall(
    r"\w+",
    """
model messages input instructions system max_tokens max_output_tokens stream temperature top_p top_k stop_sequences
tools tool_choice parallel_tool_calls thinking output_config reasoning text format effort type display include metadata
user truncation mode role content summary encrypted_content call_id name namespace arguments output id input_schema
parameters schema strict description source media_type data url tool_use_id is_error title tool_name image_url
input_audio refusal signature verbosity previous_response_id conversation prompt background disable_parallel_tool_use
""",
)
KINDS = re.findall(
    r"\w+",
    """
text image document tool_use tool_result thinking redacted_thinking server_tool_use web_search_tool_result search_result
tool_reference message function_call function_call_output reasoning custom_tool_call web_search_call item_reference
input_text output_text input_image input_file input_audio summary_text function namespace custom json_schema base64 url
enabled disabled adaptive auto any tool none allowed_tools content
""",
)
WORDS = ["", "user", "assistant", "system", "developer", "high", "none", "xhigh", "{}", '{"a":1}', "aGk=", "gAAAA"]
WORDS += ["data:image/png;base64,aGk=", "http://127.0.0.1/x", "reasoning.encrypted_content", "disabled"]
words = st.sampled_from([*WORDS, *KINDS]) | st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words
names = st.sampled_from(NAMES) | st.text(max_size=4)
kinds = st.fixed_dictionaries({"type": st.sampled_from(KINDS)})
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=4)
        | st.tuples(kinds, st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)).map(lambda two: two[0] | two[1])
    ),
    max_leaves=14,
)
blocks = st.lists(
    st.tuples(
        st.fixed_dictionaries({"type": st.sampled_from(KINDS), "role": st.sampled_from(["user", "assistant"])}),
        st.dictionaries(st.sampled_from(NAMES), values, max_size=5),
    ).map(lambda two: two[0] | two[1]),
    max_size=4,
)
turns = words | st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": words | blocks}),
    max_size=4,
)
bodies = st.tuples(
    st.fixed_dictionaries(
        {
            "model": st.just("m"),
            "max_tokens": st.just(5),
            "messages": turns | values,
            "input": turns | blocks | values,
        }
    ),
    st.dictionaries(st.sampled_from(NAMES[6:]), values | blocks, max_size=5),
).map(lambda two: two[0] | two[1])


def refusal(dialect, failure):
    return dialect.error(failure, "r") if dialect is anthropic else dialect.error(failure)


@pytest.mark.parametrize("dialect", [anthropic, responses])
@given(body=bodies)
@settings(max_examples=400, deadline=None)
def test_any_json_object(dialect, body):
    try:
        found = dialect.parse_chat(json.dumps(body).encode(), allow_image_urls=True)
    except BadRequest as refused:
        failure = refused.failure
    else:
        assert encode_chat(decode_chat(encode_chat(found))) == encode_chat(found)
        assert all(isinstance(part, bytes | Mixed) for part in prompt_parts(found))
        # What was asked can be said back.
        json.loads(dialect.Whole(found, id="abc", created=CREATED).end(End("done"), CREATED)[1])
        return
    assert failure.status == 400
    json.loads(refusal(dialect, failure))


@pytest.mark.parametrize("dialect", [anthropic, responses])
@given(body=st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=300, deadline=None)
def test_any_bytes(dialect, body):
    with contextlib.suppress(BadRequest):
        dialect.parse_chat(body)


@pytest.mark.parametrize("dialect", [anthropic, responses])
@pytest.mark.parametrize("field", ["messages", "input", "system", "tools", "metadata", "tool_choice", "thinking"])
def test_a_body_made_to_break_parsers(dialect, field):
    body = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"input":"x"'
    for nested in (b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000):
        with contextlib.suppress(BadRequest):
            dialect.parse_chat(body + b',"' + field.encode() + b'":' + nested + b"}")


chats = st.builds(
    lambda think, show, parallel: Chat(
        "Org/Model-X", [], "responses", think=think, show_reasoning=show, parallel_tool_calls=parallel
    ),
    st.sampled_from(["unset", "off", "on"]),
    st.booleans(),
    st.sampled_from([None, False]),
)


@pytest.mark.parametrize("dialect", [anthropic, responses])
@given(asked=chats, found=any_events, cuts=st.lists(st.integers(0, 14), max_size=5), end=ends)
@settings(max_examples=200, deadline=None)
def test_an_answer_is_the_same_however_it_is_cut(dialect, asked, found, cuts, end):
    at_once = dialect.Stream(asked, id="abc", created=CREATED)
    expected = at_once.feed(found, CREATED) + at_once.end(end, CREATED)
    in_pieces = dialect.Stream(asked, id="abc", created=CREATED)
    data = b"".join(in_pieces.feed(part, CREATED) for part in cut_up(found, cuts)) + in_pieces.end(end, CREATED)
    assert data == expected

    once = dialect.Whole(asked, id="abc", created=CREATED)
    once.feed(found, CREATED)
    pieces = dialect.Whole(asked, id="abc", created=CREATED)
    for part in cut_up(found, cuts):
        pieces.feed(part, CREATED)
    assert once.end(end, CREATED) == pieces.end(end, CREATED)


@given(asked=chats, found=any_events, end=ends)
@settings(max_examples=200, deadline=None)
def test_a_message_says_the_same_in_a_stream_and_whole(asked, found, end):
    answer = anthropic.Stream(asked, id="abc", created=CREATED)
    told = anthropic_events(answer.feed(found, CREATED) + answer.end(end, CREATED))
    once = anthropic.Whole(asked, id="abc", created=CREATED)
    once.feed(found, CREATED)
    status, body = once.end(end, CREATED)
    assert [event["type"] for event in told if event["type"] in {"error", "message_stop"}] == [
        "message_stop" if status == 200 else "error"
    ]
    if status != 200:
        return
    message = json.loads(body)
    joined = []
    for event in told:
        if event["type"] == "content_block_start":
            joined.append(event["content_block"] | {"arguments": ""})
        elif event["type"] == "content_block_delta":
            kind = event["delta"].pop("type")
            for name, piece in event["delta"].items():
                joined[event["index"]]["arguments" if kind == "input_json_delta" else name] += piece
    for block in joined:
        arguments = block.pop("arguments")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments)
    assert joined == message["content"]
    assert told[-2]["delta"]["stop_reason"] == message["stop_reason"]
    assert told[-2]["usage"] == message["usage"]


@given(asked=chats, found=any_events, end=ends)
@settings(max_examples=200, deadline=None)
def test_a_response_says_the_same_in_a_stream_and_whole(asked, found, end):
    answer = responses.Stream(asked, id="abc", created=CREATED)
    told = responses_events(answer.feed(found, CREATED) + answer.end(end, CREATED))
    once = responses.Whole(asked, id="abc", created=CREATED)
    once.feed(found, CREATED)
    status, body = once.end(end, CREATED)
    last = told[-1]
    if status != 200:
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["message"] == json.loads(body)["error"]["message"]
        return
    assert last["response"] == json.loads(body)
    assert last["type"] == f"response.{last['response']['status']}"
    assert [event["item"] for event in told if event["type"] == "response.output_item.done"] == last["response"][
        "output"
    ]
    for number, item in enumerate(last["response"]["output"]):
        deltas = "".join(e["delta"] for e in told if e.get("output_index") == number and "delta" in e)
        texts = [part["text"] for part in [*item.get("summary", []), *item.get("content", [])]]
        assert deltas == "".join(texts) + item.get("arguments", "")

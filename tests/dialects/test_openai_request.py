import json

import pytest

from buffer.job import Format, decode_chat, encode_chat
from gateway.dialects import openai

MESSAGES = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}


def parse(**fields):
    return openai.parse_chat(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def raw(value):
    return None if value is None else json.loads(bytes(value))


def test_the_least_body():
    chat = parse()
    assert (chat.model, chat.front, chat.stream, chat.n, chat.max_tokens) == ("m", "openai", False, 1, None)
    assert (chat.tools, chat.stop, chat.options, chat.extra) == ([], [], {}, {})
    assert encode_chat(chat) == b'{"model":"m","messages":[{"role":"user","content":"hi"}],"sampling":{}}'


def test_nulls_are_absent():
    names = (
        "temperature top_p top_k max_tokens stop tools response_format stream user n logprobs tool_choice think options"
    )
    chat = parse(**dict.fromkeys(names.split()), seed=42)
    assert chat.sampling.seed == 42
    assert encode_chat(chat) == b'{"model":"m","messages":[{"role":"user","content":"hi"}],"sampling":{"seed":42}}'


@pytest.mark.parametrize(
    ("fields", "stream", "usage"),
    [
        ({}, False, False),
        ({"stream": True}, True, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True, True),
        ({"stream": True, "stream_options": {"include_usage": None}}, True, False),
        ({"stream": False, "stream_options": {"include_usage": True}}, False, False),
    ],
)
def test_streams(fields, stream, usage):
    chat = parse(**fields)
    assert (chat.stream, chat.include_usage) == (stream, usage)
    assert not chat.extra


def test_sampling_settings():
    chat = parse(temperature=0, top_p=0.5, top_k=20.0, min_p=0.1, repetition_penalty=1.1, presence_penalty=-1, seed=7)
    assert encode_chat(chat).endswith(
        b'"sampling":{"temperature":0.0,"top_p":0.5,"top_k":20,"min_p":0.1,"repeat_penalty":1.1,'
        b'"presence_penalty":-1.0,"seed":7}}'
    )


def test_ollama_options_in_an_openai_body_fill_what_it_leaves_open():
    chat = parse(
        temperature=0.5, num_ctx=4096, options={"temperature": 0.9, "top_k": 5, "num_predict": 9, "num_gpu": 1}
    )
    assert (chat.sampling.temperature, chat.sampling.top_k, chat.max_tokens) == (0.5, 5, 9)
    assert {name: raw(value) for name, value in chat.options.items()} == {"num_ctx": 4096, "num_gpu": 1}
    assert not chat.extra


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 7, "max_tokens": 5}, 7),
        ({"max_tokens": -1}, None),
        ({"num_predict": 6}, 6),
        ({"num_predict": -1}, None),
        ({"num_predict": 6, "max_tokens": 5}, 5),
    ],
)
def test_lengths(fields, most):
    assert parse(**fields).max_tokens == most


@pytest.mark.parametrize(
    ("stop", "expected"),
    [("END", ["END"]), (["A", "B"], ["A", "B"]), ([], []), (["", "A"], ["A"]), (list("abcdef"), list("abcdef"))],
)
def test_stops(stop, expected):
    assert parse(stop=stop).stop == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "json_object"}}, ("json", None, "", None)),
        ({"response_format": {"type": "json_object", "schema": {"a": 1}}}, ("schema", {"a": 1}, "schema", None)),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True},
                }
            },
            ("schema", {"a": 1}, "n", True),
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, ("schema", {}, "schema", None)),
        ({"format": "json"}, ("json", None, "", None)),
        ({"format": {"a": 1}}, ("schema", {"a": 1}, "schema", None)),
        ({"guided_json": {"a": 1}}, ("schema", {"a": 1}, "schema", None)),
        ({"guided_json": '{"a": 1}'}, ("schema", {"a": 1}, "schema", None)),
        ({"structured_outputs": {"json": {"a": 1}}}, ("schema", {"a": 1}, "schema", None)),
        ({"structured_outputs": {"json_object": True}}, ("json", None, "", None)),
    ],
)
def test_structured_output(fields, expected):
    chat = parse(**fields)
    found = chat.format
    if expected is None:
        assert found is None
    else:
        assert isinstance(found, Format)
        assert (found.kind, raw(found.schema), found.name, found.strict) == expected
    assert not chat.extra


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"guided_regex": "a+"}, {"regex": "a+"}),
        ({"guided_choice": ["a", "b"], "guided_decoding_backend": "x"}, {"choice": ["a", "b"]}),
        ({"structured_outputs": {"grammar": "root ::= 'a'"}}, {"grammar": "root ::= 'a'"}),
    ],
)
def test_structures_that_only_vllm_knows_reach_it_in_todays_form(fields, kept):
    chat = parse(**fields)
    assert chat.format is None
    assert {name: raw(value) for name, value in chat.extra.items()} == {"structured_outputs": kept}


def test_tools():
    chat = parse(tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    assert [raw(tool) for tool in chat.tools] == [TOOL]
    assert (raw(chat.tool_choice), chat.parallel_tool_calls) == ("required", False)


def test_any_tool_is_a_required_one():
    assert raw(parse(tools=[TOOL], tool_choice="any").tool_choice) == "required"


def test_no_tools_no_choice():
    chat = parse(tools=[], tool_choice="auto")
    assert (chat.tools, chat.tool_choice) == ([], None)


def test_unknown_fields_are_carried_as_they_are_and_dangerous_ones_are_not():
    more = b'"logit_bias":{"5": -1.50},"a":[1,{"b":null}],"priority":-9,"request_id":"x"'
    chat = openai.parse_chat(b'{"model":"m","messages":[{"role":"user","content":"x"}],' + more + b"}")
    assert {name: bytes(value) for name, value in chat.extra.items()} == {
        "logit_bias": b'{"5": -1.50}',
        "a": b'[1,{"b":null}]',
    }
    again = decode_chat(encode_chat(chat))
    assert bytes(again.extra["logit_bias"]) == b'{"5": -1.50}'


def test_a_byte_order_mark_is_no_error():
    assert openai.parse_chat(b'\xef\xbb\xbf {"model":"m","messages":[{"role":"user","content":"x"}]}').model == "m"

"""What an Anthropic body means inside."""

import json

import pytest
from msgspec import to_builtins

from buffer.job import ImagePart, TextPart, decode_chat, encode_chat
from gateway.dialects.anthropic import parse_chat, parse_count, token_count
from gateway.dialects.errors import BadRequest

PNG = "iVBORw0KGgo="
USER = {"role": "user", "content": "Hello"}
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {}}}}
TOLD = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"at": {}}}},
}


def read(**fields):
    body = {"model": "m", "max_tokens": 100, "messages": [USER], **fields}
    chat = parse_chat(json.dumps(body).encode())
    assert encode_chat(decode_chat(encode_chat(chat))) == encode_chat(chat)
    return chat


def turns(*messages, **fields):
    return [to_builtins(message) for message in read(messages=list(messages), **fields).messages]


def test_the_least():
    chat = read()
    assert (chat.model, chat.front, chat.stream, chat.max_tokens, chat.think) == ("m", "anthropic", False, 100, "unset")
    assert to_builtins(chat.messages) == [USER]


def test_settings():
    chat = read(stream=True, temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["a", "", "b"], metadata={"a": 1})
    assert (chat.stream, chat.stop) == (True, ["a", "b"])
    assert (chat.sampling.temperature, chat.sampling.top_p, chat.sampling.top_k) == (0.5, 0.9, 40)
    assert chat.extra == {}


@pytest.mark.parametrize(
    ("system", "found"),
    [
        ("Be kind.", "Be kind."),
        (
            [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
            "a\n\nb",
        ),
        (
            [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=5f"},
                {"type": "text", "text": "b"},
            ],
            "b",
        ),
    ],
)
def test_instructions_come_first(system, found):
    assert turns(USER, system=system) == [{"role": "system", "content": found}, USER]


@pytest.mark.parametrize("system", ["", [], [{"type": "text", "text": ""}], None])
def test_no_instructions(system):
    assert turns(USER, system=system) == [USER]


def test_a_system_message_at_the_beginning_joins_the_instructions():
    assert turns({"role": "system", "content": "b"}, USER, system="a")[0] == {"role": "system", "content": "a\n\nb"}


def test_a_tool_round():
    messages = [
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"b": 1, "a": [2]}},
                {"type": "tool_use", "id": "t2", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "and then?"},
                {"type": "tool_result", "tool_use_id": "t1", "content": "seen"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "is_error": True,
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                },
            ],
        },
    ]
    assert turns(*messages) == [
        USER,
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning": "hm",
            "tool_calls": [
                {"id": "t1", "name": "look", "arguments": '{"b":1,"a":[2]}'},
                {"id": "t2", "name": "now", "arguments": "{}"},
            ],
        },
        {"role": "tool", "content": "seen", "tool_call_id": "t1", "tool_name": "look"},
        {"role": "tool", "content": "a\nb", "tool_call_id": "t2", "tool_name": "now"},
        {"role": "user", "content": "and then?"},
    ]


def test_a_result_alone_makes_no_user_message():
    result = {"type": "tool_result", "tool_use_id": "t", "content": None}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    assert [m["role"] for m in turns(USER, call, {"role": "user", "content": [result]})] == [
        "user",
        "assistant",
        "tool",
    ]


@pytest.mark.parametrize("after", [[], [{"type": "text", "text": "what is it?"}]])
def test_a_picture_in_a_result_is_shown_to_the_model_by_the_user(after):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "read"}, image]}
    *_, tool, shown = read(messages=[USER, call, {"role": "user", "content": [result, *after]}]).messages
    assert (tool.role, tool.content) == ("tool", "read")
    assert shown.role == "user"
    picture, words = shown.content
    assert picture == ImagePart(f"data:image/png;base64,{PNG}")
    assert words == TextPart(after[0]["text"] if after else "From the tool results above:")


def test_documents_and_search_results_are_read_as_text():
    parts = [
        {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "more"}]}},
        {"type": "search_result", "title": "S", "source": "http://x", "content": [{"type": "text", "text": "hit"}]},
    ]
    assert turns({"role": "user", "content": parts})[0]["content"] == "T\nwords\nmore\nS\nhttp://x\nhit"


def test_what_a_server_of_anthropics_looked_up_stays_in_the_history():
    blocks = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u", "title": "t"}]},
        {"type": "text", "text": "Found."},
    ]
    assistant, tool, _ = turns({"role": "assistant", "content": blocks}, USER)
    assert assistant["tool_calls"][0]["name"] == "web_search"
    assert (tool["tool_name"], json.loads(tool["content"])) == ("web_search", [{"url": "u", "title": "t"}])


def test_a_beginning_of_the_answer_stays_last():
    assert turns(USER, {"role": "assistant", "content": "The best is ("})[-1]["role"] == "assistant"


def test_an_assistant_turn_without_a_word_is_left_out():
    empty = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}]}
    assert turns(USER, empty, USER) == [USER, USER]


@pytest.mark.parametrize(
    ("fields", "think"),
    [
        ({}, "unset"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, "on"),
        ({"thinking": {"type": "disabled"}}, "off"),
        ({"thinking": {"type": "adaptive"}}, "unset"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}, "medium"),
        ({"thinking": {"type": "enabled"}, "output_config": {"effort": "low"}}, "on"),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, "off"),
        ({"output_config": {"effort": "low"}}, "low"),
        ({"output_config": {"effort": "high"}}, "high"),
        ({"output_config": {"effort": "xhigh"}}, "high"),
        ({"output_config": {"effort": "max"}}, "max"),
        ({"mode": "non-thinking"}, "off"),
        ({"mode": "thinking", "thinking": {"type": "disabled"}}, "off"),
    ],
)
def test_thinking(fields, think):
    assert read(**fields).think == think


def test_thinking_that_is_not_to_be_shown():
    assert read(thinking={"type": "enabled", "display": "omitted"}).show_reasoning is False
    assert read(thinking={"type": "enabled", "display": "summarized"}).show_reasoning is True


def test_tools():
    chat = read(tools=[TOOL, {"name": "bare", "type": "custom", "input_schema": {}, "strict": True}])
    assert [json.loads(bytes(tool)) for tool in chat.tools] == [
        TOLD,
        {"type": "function", "function": {"name": "bare", "parameters": {}, "strict": True}},
    ]


def test_tools_that_anthropic_runs_are_left_out_among_others_and_refused_alone():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    assert [json.loads(bytes(tool)) for tool in read(tools=[search, TOOL]).tools] == [TOLD]
    with pytest.raises(BadRequest, match="web_search_20250305") as refused:
        read(tools=[search])
    assert refused.value.param == "tools"


@pytest.mark.parametrize(
    ("choice", "found", "parallel"),
    [
        ({"type": "auto"}, "auto", None),
        ({"type": "any"}, "required", None),
        ({"type": "none"}, "none", None),
        ({"type": "tool", "name": "look"}, {"type": "function", "function": {"name": "look"}}, None),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
    ],
)
def test_tool_choice(choice, found, parallel):
    chat = read(tools=[TOOL], tool_choice=choice)
    assert json.loads(bytes(chat.tool_choice)) == found
    assert chat.parallel_tool_calls is parallel
    assert read(tool_choice=choice).tool_choice is None


def test_an_answer_of_a_form():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    chat = read(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert chat.format.kind == "schema"
    assert json.loads(bytes(chat.format.schema)) == schema


def test_a_count_needs_no_length_and_grows_with_everything():
    def count(**fields):
        return token_count(parse_count(json.dumps({"model": "m", "messages": [USER], **fields}).encode()))

    least = count()
    assert least >= 1
    assert count(system="x" * 400) >= least + 100
    assert count(tools=[TOOL]) > least
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    assert count(messages=[{"role": "user", "content": [image]}]) > least + 900
    with pytest.raises(BadRequest):
        count(max_tokens=0)

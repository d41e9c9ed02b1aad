"""What a Responses body means inside."""

import json

import pytest
from msgspec import to_builtins

from buffer.job import AudioPart, ImagePart, TextPart, decode_chat, encode_chat
from gateway.dialects.errors import BadRequest
from gateway.dialects.responses import parse_chat

PNG = "data:image/png;base64,iVBORw0KGgo="
USER = {"role": "user", "content": "Hello"}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'}
TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": None}
TOLD = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}


def read(**fields):
    chat = parse_chat(json.dumps({"model": "m", "input": "Hello", **fields}).encode())
    assert encode_chat(decode_chat(encode_chat(chat))) == encode_chat(chat)
    return chat


def turns(*items, **fields):
    return [to_builtins(message) for message in read(input=list(items), **fields).messages]


def test_the_least():
    chat = read()
    assert (chat.model, chat.front, chat.stream, chat.max_tokens, chat.think) == (
        "m",
        "responses",
        False,
        None,
        "unset",
    )
    assert to_builtins(chat.messages) == [USER]
    assert chat.sampling.temperature is None


def test_settings():
    chat = read(
        stream=True,
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=50,
        store=True,
        service_tier="auto",
        user="u",
        stream_options={"include_obfuscation": False},
    )
    assert (chat.stream, chat.max_tokens, chat.sampling.temperature, chat.sampling.top_p) == (True, 50, 0.5, 0.9)
    assert "store" not in chat.extra


def test_instructions_and_what_developers_say_first_are_one_system_message():
    found = turns(
        {"role": "developer", "content": "b"}, USER, {"role": "system", "content": "c"}, USER, instructions="a"
    )
    assert found == [{"role": "system", "content": "a\n\nb"}, USER, {"role": "system", "content": "c"}, USER]


def test_a_tool_round():
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Well.", "annotations": []}],
        },
        {**CALL, "id": "fc_1", "status": "completed"},
        {**CALL, "call_id": "c2", "name": "now", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "8"}]},
    ]
    assert turns(*items) == [
        USER,
        {
            "role": "assistant",
            "content": "Well.",
            "reasoning": "hm",
            "tool_calls": [
                {"id": "c1", "name": "look", "arguments": '{"at":1}'},
                {"id": "c2", "name": "now", "arguments": "{}"},
            ],
        },
        {"role": "tool", "content": "seen", "tool_call_id": "c1", "tool_name": "look"},
        {"role": "tool", "content": "8", "tool_call_id": "c2", "tool_name": "now"},
    ]


@pytest.mark.parametrize(
    ("item", "thought"),
    [
        ({"encrypted_content": "ours", "summary": [{"type": "summary_text", "text": "s"}]}, "ours"),
        ({"encrypted_content": "gAAAAABoISQ", "summary": [{"type": "summary_text", "text": "s"}]}, "s"),
        ({"content": [{"type": "reasoning_text", "text": "c"}], "summary": []}, "c"),
        ({"summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}]}, "a\nb"),
        ({"encrypted_content": "gAAAAABoISQ", "summary": []}, ""),
        ({}, ""),
    ],
)
def test_thinking_that_comes_back(item, thought):
    assert turns(USER, {"type": "reasoning", **item}, CALL)[1].get("reasoning", "") == thought


def test_thinking_that_nothing_followed_is_left_out():
    assert turns(USER, {"type": "reasoning", "encrypted_content": "hm"}) == [USER]


def test_pictures_and_sound():
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": PNG, "detail": "auto"},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
    ]
    (message,) = read(input=[{"role": "user", "content": parts}]).messages
    assert message.content == [TextPart("see"), ImagePart(PNG), AudioPart("aGk=", "mp3")]


def test_pictures_in_results_are_shown_to_the_model_by_the_user_after_all_results():
    picture = [{"type": "input_image", "image_url": PNG}]
    items = [
        CALL,
        {**CALL, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": picture},
        {"type": "function_call_output", "call_id": "c2", "output": "x"},
    ]
    *rest, shown = read(input=[USER, *items]).messages
    assert [message.role for message in rest] == ["user", "assistant", "tool", "tool"]
    assert shown.content == [ImagePart(PNG), TextPart("From the tool results above:")]


def test_a_call_whose_arguments_were_no_json_does_not_end_the_conversation():
    _, message = turns(USER, {**CALL, "arguments": '{"at": '})
    assert json.loads(message["tool_calls"][0]["arguments"]) == {"arguments": '{"at": '}


def test_calls_of_custom_tools_and_searches_stay_in_the_history():
    found = turns(
        USER,
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search"}},
        {"type": "custom_tool_call", "call_id": "p", "name": "apply_patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "p", "output": "Done"},
    )
    assert json.loads(found[1]["tool_calls"][0]["arguments"]) == {"input": "*** Begin"}
    assert found[2]["tool_name"] == "apply_patch"


@pytest.mark.parametrize(
    ("word", "think"),
    [
        (None, "unset"), ("none", "off"), ("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"),
        ("xhigh", "max"), ("max", "max"),
    ],
)  # fmt: skip
def test_effort(word, think):
    assert read(reasoning={"effort": word, "summary": "auto"}).think == think


def test_a_mode_counts_where_no_effort_is_named():
    assert read(mode="no_think").think == "off"
    assert read(mode="no_think", reasoning={"effort": "low"}).think == "low"


def test_tools():
    chat = read(tools=[TOOL, {"type": "function", "function": {"name": "deep", "strict": True}}])
    assert [json.loads(bytes(tool)) for tool in chat.tools] == [
        TOLD,
        {
            "type": "function",
            "function": {"name": "deep", "parameters": {"type": "object", "properties": {}}, "strict": True},
        },
    ]


def test_tools_in_namespaces():
    spaces = [
        {"type": "namespace", "name": "crm", "description": "d", "tools": [TOOL]},
        {"type": "namespace", "name": "mcp__files__", "tools": [TOOL, {"type": "custom", "name": "x"}]},
    ]
    chat = read(tools=spaces, input=[USER, {**CALL, "namespace": "crm"}])
    assert [json.loads(bytes(tool))["function"]["name"] for tool in chat.tools] == ["crm__look", "mcp__files__look"]
    assert chat.messages[1].tool_calls[0].name == "crm__look"


def test_tools_that_openai_runs_are_left_out_among_others_and_refused_alone():
    foreign = [{"type": "web_search"}, {"type": "custom", "name": "apply_patch"}]
    assert [json.loads(bytes(tool)) for tool in read(tools=[*foreign, TOOL]).tools] == [TOLD]
    with pytest.raises(BadRequest, match="custom, web_search") as refused:
        read(tools=foreign)
    assert refused.value.param == "tools"


@pytest.mark.parametrize("choice", ["none", "auto", "required", {"type": "function", "name": "look"}])
def test_tool_choice(choice):
    chat = read(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False)
    told = {"type": "function", "function": {"name": "look"}} if isinstance(choice, dict) else choice
    assert json.loads(bytes(chat.tool_choice)) == told
    assert chat.parallel_tool_calls is False
    assert read(tool_choice=choice).tool_choice is None


def test_a_choice_among_some_tools_leaves_the_others_out():
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "b"}]}
    chat = read(tools=[{**TOOL, "name": name} for name in "abc"], tool_choice=allowed)
    assert [json.loads(bytes(tool))["function"]["name"] for tool in chat.tools] == ["b"]
    assert json.loads(bytes(chat.tool_choice)) == "required"


def test_a_choice_that_leaves_all_tools_out_asks_for_none():
    for mode in ("auto", "none"):
        allowed = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "other"}]}
        chat = read(tools=[TOOL], tool_choice=allowed)
        assert (chat.tools, chat.tool_choice) == ([], None)


def test_forms_of_the_answer():
    schema = {"type": "object", "properties": {}}
    wanted = read(text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}).format
    assert (wanted.kind, wanted.name, wanted.strict, json.loads(bytes(wanted.schema))) == ("schema", "n", True, schema)
    assert read(text={"format": {"type": "json_object"}}).format.kind == "json"
    assert read(text={"format": {"type": "text"}, "verbosity": "low"}).format is None


def test_what_is_too_long_is_refused_where_the_client_says_so():
    assert [read(truncation=word).truncate for word in ("auto", "disabled", None)] == [True, False, True]

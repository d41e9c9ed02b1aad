import json
import time

import pytest

from buffer.job import encode_chat
from gateway.dialects import ollama
from gateway.dialects.errors import BadRequest
from gateway.dialects.sampling import keep_alive_s

MESSAGES = [{"role": "user", "content": "hi"}]


def parse(**fields):
    return ollama.parse_chat(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def raw(value):
    return json.loads(bytes(value))


def test_the_least_body_streams():
    assert encode_chat(parse()) == (
        b'{"model":"m","messages":[{"role":"user","content":"hi"}],"front":"ollama","stream":true,"sampling":{}}'
    )


@pytest.mark.parametrize(("stream", "expected"), [(None, True), (True, True), (False, False)])
def test_streams(stream, expected):
    assert parse(stream=stream).stream is expected


def test_options():
    chat = parse(
        options={
            "temperature": 1,
            "top_k": 20.7,
            "num_predict": 10,
            "stop": "END",
            "seed": -1,
            "num_ctx": 2048,
            "temperature_x": {"y": 1},
            "top_p": None,
        }
    )
    assert (chat.sampling.temperature, chat.sampling.top_k, chat.sampling.seed, chat.sampling.top_p) == (
        1.0,
        20,
        -1,
        None,
    )
    assert (chat.max_tokens, chat.stop) == (10, ["END"])
    assert {name: raw(value) for name, value in chat.options.items()} == {"num_ctx": 2048, "temperature_x": {"y": 1}}


@pytest.mark.parametrize(("number", "most"), [(10, 10), (-1, None), (-2, None), (None, None), (0, 0)])
def test_num_predict(number, most):
    assert parse(options={"num_predict": number}).max_tokens == most


def test_nulls_are_absent():
    chat = parse(
        options={"temperature": None, "num_ctx": None, "stop": None, "top_k": None, "seed": 42},
        format=None,
        tools=None,
        think=None,
        keep_alive=None,
    )
    assert chat.sampling.seed == 42
    assert (chat.options, chat.format, chat.keep_alive, chat.tools) == ({}, None, None, [])
    assert parse(options=None).options == {}


@pytest.mark.parametrize(
    ("keep_alive", "kept", "seconds"),
    [
        ("-1", -1, -1),
        (-1, -1, -1),
        ("10m", "10m", 600),
        (0, 0, 0),
        ("0", 0, 0),
        (300, 300, 300),
        ("300", 300, 300),
        ("1h30m", "1h30m", 5400),
        ("-1m", "-1m", -60),
        ("300ms", "300ms", 0.3),
        (1.5, 1.5, 1.5),
        ("1e9", None, None),
        (1e300, 9_000_000_000, 9e9),
        (1e-10, 0, 0),
        ("1.s", "1.s", 1),
        (".5m", ".5m", 30),
    ],
)
def test_keep_alive(keep_alive, kept, seconds):
    if kept is None:
        with pytest.raises(BadRequest):
            parse(keep_alive=keep_alive)
        return
    chat = parse(keep_alive=keep_alive)
    assert raw(chat.keep_alive) == kept
    assert keep_alive_s(chat.keep_alive) == pytest.approx(seconds)


def test_a_long_text_that_is_no_duration_is_told_so_at_once():
    began_at = time.perf_counter()
    for text in ("1" * 100_000 + "x", "1m" * 50_000 + "x"):
        with pytest.raises(BadRequest):
            parse(keep_alive=text)
    assert time.perf_counter() - began_at < 2


@pytest.mark.parametrize(
    ("fields", "kind", "schema"),
    [({"format": "json"}, "json", None), ({"format": {"type": "object"}}, "schema", {"type": "object"})],
)
def test_format(fields, kind, schema):
    found = parse(**fields).format
    assert found.kind == kind
    assert (raw(found.schema) if found.schema else None) == schema


def test_an_empty_format_is_none():
    assert parse(format="").format is None


def test_system_at_the_top_counts_only_where_no_message_is_one():
    assert [(m.role, m.content) for m in parse(system="S").messages] == [("system", "S"), ("user", "hi")]
    own = [{"role": "system", "content": "own"}, *MESSAGES]
    assert [m.content for m in parse(system="S", messages=own).messages] == ["own", "hi"]


def test_fields_that_ollama_does_not_have_are_dropped():
    chat = parse(template="x", tool_choice="required", top_k=3, n=5)
    assert (chat.extra, chat.tool_choice, chat.sampling.top_k, chat.n) == ({}, None, None, 1)


def test_shift_goes_on():
    assert {name: raw(value) for name, value in parse(shift=False).extra.items()} == {"shift": False}


@pytest.mark.parametrize("fields", [{}, {"messages": []}, {"messages": None}, {"stream": True}, {"keep_alive": 5}])
def test_no_messages_load_the_model(fields):
    chat = ollama.parse_chat(json.dumps({"model": "m", **fields}).encode())
    answer = json.loads(ollama.load_answer(chat, 0.0))
    assert answer == {
        "model": "m",
        "created_at": "1970-01-01T00:00:00.000000Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "load",
    }


@pytest.mark.parametrize("keep_alive", [0, "0", "0s", 0.0])
def test_no_messages_and_no_time_unload_it(keep_alive):
    chat = ollama.parse_chat(json.dumps({"model": "m", "keep_alive": keep_alive}).encode())
    assert json.loads(ollama.load_answer(chat, 0.0))["done_reason"] == "unload"


def test_a_chat_with_messages_is_no_load():
    assert ollama.load_answer(parse(), 0.0) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "missing request body"),
        (b"{}", "model is required"),
        (b'{"model":""}', "model is required"),
    ],
)
def test_refusals_in_ollamas_words(body, message):
    with pytest.raises(BadRequest) as caught:
        ollama.parse_chat(body)
    assert (caught.value.status, caught.value.message) == (400, message)


@pytest.mark.parametrize("body", [b'{"model":', b"[]", b'{"model":5}', b"\xff", b"null", b"{" * 50_000])
def test_bad_bodies(body):
    with pytest.raises(BadRequest) as caught:
        ollama.parse_chat(body)
    assert caught.value.status == 400
    assert isinstance(json.loads(ollama.error(caught.value.failure))["error"], str)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"options": {"temperature": "hot"}}, 'option "temperature" must be of type float32'),
        ({"options": {"top_k": "many"}}, 'option "top_k" must be of type integer'),
        ({"options": {"top_k": True}}, 'option "top_k" must be of type integer'),
        ({"options": {"num_predict": "x"}}, 'option "num_predict" must be of type integer'),
        ({"options": {"stop": 5}}, 'option "stop" must be of type array'),
        ({"options": {"seed": 1e300}}, 'option "seed" must be of type integer'),
        ({"options": 5}, "options"),
        ({"format": "yaml"}, 'invalid format: "yaml"; expected "json" or a valid JSON Schema object'),
        ({"format": 5}, "invalid format"),
        ({"stream": "no"}, "stream"),
        ({"keep_alive": "soon"}, 'invalid duration "soon"'),
        ({"keep_alive": True}, "keep_alive"),
        ({"top_logprobs": 21}, "top_logprobs must be between 0 and 20"),
        ({"messages": "x"}, "messages"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages"),
        ({"messages": [{"role": "user", "images": [5]}]}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages"),
        ({"tools": "x"}, "tools"),
        ({"system": 5}, "system"),
    ],
)
def test_wrong_fields(fields, part):
    with pytest.raises(BadRequest) as caught:
        parse(**fields)
    assert caught.value.status == 400
    assert part in caught.value.message


def test_names_of_show():
    assert ollama.show_name(b'{"model":"a"}') == "a"
    assert ollama.show_name(b'{"name":"b"}') == "b"
    with pytest.raises(BadRequest, match="model is required"):
        ollama.show_name(b"{}")


def test_failures_about_models():
    assert json.loads(ollama.error(ollama.unknown_model("x"))) == {"error": "model 'x' not found"}
    assert ollama.unknown_model("x").status == 404
    assert json.loads(ollama.error(ollama.cannot_think("x"))) == {"error": '"x" does not support thinking'}

"""Ollama's ``/api/generate``: what is asked, and how it is answered."""

import json

import pytest
from msgspec import Raw

from buffer.job import (
    AudioPart,
    Content,
    End,
    Failure,
    Finish,
    Format,
    ImagePart,
    Logprobs,
    Message,
    Reasoning,
    TextPart,
    Usage,
    decode_chat,
    encode_chat,
)
from gateway.dialects import generate
from gateway.dialects.errors import BadRequest
from tests.dialects.events import CREATED, ID, TOKENS, chat, ndjson

PNG = "iVBORw0KGgo="
ENDING = [Content("Hel"), Content("lo"), Finish("stop"), Usage(7, 2, prompt_ns=30, completion_ns=50)]


def asked(**fields):
    return generate.parse(json.dumps({"model": "m", "prompt": "hi"} | fields).encode())


def refusal(**fields):
    with pytest.raises(BadRequest) as refused:
        asked(**fields)
    assert refused.value.status == 400
    return refused.value.message


def stream(of, events, end=None, **more):
    answer = generate.stream(of, id=ID, created=CREATED, **more)
    return ndjson(answer.feed(events, CREATED + 1) + answer.end(end or End("done"), CREATED + 2, queued_s=0.5))


def whole(of, events, end=None):
    answer = generate.whole(of, id=ID, created=CREATED)
    answer.feed(events, CREATED + 1)
    status, body = answer.end(end or End("done"), CREATED + 2, queued_s=0.5)
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({}, [Message("user", "hi")]),
        ({"system": ""}, [Message("user", "hi")]),
        ({"system": "Be brief."}, [Message("system", "Be brief."), Message("user", "hi")]),
        (
            {"images": [PNG]},
            [Message("user", [TextPart("hi"), ImagePart(f"data:image/png;base64,{PNG}")])],
        ),
        ({"images": []}, [Message("user", "hi")]),
        ({"images": None, "context": None, "template": None, "suffix": None, "raw": None}, [Message("user", "hi")]),
        ({"context": [1, 2, 3]}, [Message("user", "hi")]),
        ({"suffix": "", "raw": False}, [Message("user", "hi")]),
        ({"messages": "dropped", "tools": [{}]}, [Message("user", "hi")]),
    ],
)
def test_a_prompt_is_a_chat_of_one_turn(fields, messages):
    found = asked(**fields)
    assert found.messages == messages
    assert (found.prompt, found.suffix, found.tools, found.front) == (None, None, [], "ollama")
    assert decode_chat(encode_chat(found)) == found


@pytest.mark.parametrize(
    ("fields", "prompt", "suffix"),
    [
        ({"raw": True}, "hi", None),
        ({"suffix": "there"}, "hi", "there"),
        ({"raw": True, "suffix": "there"}, "hi", None),
        ({"suffix": "there", "system": "S", "template": "T"}, "hi", "there"),
        ({"raw": True, "system": "", "template": "", "context": []}, "hi", None),
    ],
)
def test_a_literal_prompt(fields, prompt, suffix):
    found = asked(**fields)
    assert (found.prompt, found.suffix, found.messages) == (prompt, suffix, [])


def test_images_beside_a_literal_prompt():
    found = asked(raw=True, images=[f"data:image/png;base64,{PNG}", "UklGRgAAAABXQVZF"])
    assert found.prompt == "hi"
    assert found.messages == [
        Message("user", [ImagePart(f"data:image/png;base64,{PNG}"), AudioPart("UklGRgAAAABXQVZF", "wav")])
    ]


def test_settings_are_those_of_a_chat():
    found = asked(
        think="low",
        format={"type": "object"},
        keep_alive="5m",
        options={"temperature": 0.5, "num_predict": 9, "stop": ["a"], "num_ctx": 512},
        logprobs=True,
        top_logprobs=2,
        truncate=False,
        shift=False,
    )
    assert (found.think, found.stream, found.truncate) == ("low", True, False)
    assert found.format == Format("schema", Raw(b'{"type": "object"}'), "schema")
    assert (found.sampling.temperature, found.max_tokens, found.stop) == (0.5, 9, ["a"])
    assert (found.logprobs, found.top_logprobs) == (True, 2)
    assert set(found.options) == {"num_ctx"}
    assert bytes(found.keep_alive) == b'"5m"'
    assert asked(stream=False).stream is False


def test_a_template_is_seen():
    assert "template" in asked(template="{{ .Prompt }}").extra
    assert asked(template="").extra == {}


@pytest.mark.parametrize("fields", [{"system": "s"}, {"template": "t"}, {"context": [1]}])
def test_raw_is_raw(fields):
    assert refusal(raw=True, **fields) == "raw mode does not support template, system, or context"


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": 1},
        {"prompt": ["a"]},
        {"suffix": 1},
        {"system": {}},
        {"template": 1},
        {"context": "x"},
        {"context": [1.5]},
        {"images": "x"},
        {"images": ["*"]},
        {"images": ["http://127.0.0.1/x.png"]},
        {"raw": "yes"},
        {"model": ""},
        {"think": "hard"},
    ],
)
def test_what_is_wrong_is_refused(fields):
    assert refusal(**fields)


def test_links_where_they_are_allowed():
    body = json.dumps({"model": "m", "prompt": "x", "images": ["http://127.0.0.1/x.png"]}).encode()
    found = generate.parse(body, allow_image_urls=True)
    assert found.messages[0].content[1] == ImagePart("http://127.0.0.1/x.png")


@pytest.mark.parametrize("prompt", [{}, {"prompt": ""}, {"prompt": None}, {"prompt": "", "raw": True}])
@pytest.mark.parametrize(
    ("keep", "reason"), [({}, "load"), ({"keep_alive": 0}, "unload"), ({"keep_alive": -1}, "load")]
)
def test_without_a_prompt_the_model_is_loaded_or_unloaded(prompt, keep, reason):
    found = generate.parse(json.dumps({"model": "m"} | prompt | keep).encode())
    answer = json.loads(generate.load_answer(found, CREATED))
    assert answer.pop("created_at")
    assert answer == {"model": "m", "response": "", "done": True, "done_reason": reason}


@pytest.mark.parametrize("fields", [{}, {"raw": True}, {"suffix": "x"}])
def test_with_one_it_is_answered(fields):
    assert generate.load_answer(asked(**fields), CREATED) is None


def test_stream():
    *lines, last = stream(chat(front="ollama"), [Reasoning("hm"), *ENDING])
    assert [line["response"] for line in lines] == ["", "Hel", "lo"]
    assert [line.get("thinking") for line in lines] == ["hm", None, None]
    assert all(line["done"] is False and "message" not in line for line in lines)
    assert last["response"] == ""
    assert (last["done"], last["done_reason"], last["context"]) == (True, "stop", [])
    assert (last["prompt_eval_count"], last["eval_count"]) == (7, 2)
    assert (last["prompt_eval_duration"], last["eval_duration"]) == (30, 50)
    assert last["total_duration"] == 2_000_000_000
    assert {line["model"] for line in [*lines, last]} == {"Org/Model-X"}


def test_whole():
    status, body = whole(chat(front="ollama", logprobs=True), [Reasoning("hm"), Logprobs(TOKENS), *ENDING])
    assert status == 200
    assert (body["response"], body["thinking"], body["done"], body["context"]) == ("Hello", "hm", True, [])
    assert body["logprobs"] == json.loads(TOKENS)


@pytest.mark.parametrize(("fields", "there"), [({"prompt": "x"}, False), ({"prompt": "x", "suffix": "y"}, True)])
def test_a_raw_answer_has_no_context(fields, there):
    assert ("context" in stream(chat(**fields), ENDING)[-1]) is there
    assert ("context" in whole(chat(**fields), ENDING)[1]) is there


def test_logprobs_in_a_stream():
    lines = stream(chat(front="ollama", logprobs=True), [Content("a"), Logprobs(TOKENS), Finish("stop")])
    assert lines[1] == {**lines[1], "response": "", "done": False, "logprobs": json.loads(TOKENS)}


def test_failures():
    end = End("failed", Failure("backend connection lost"))
    lines = stream(chat(front="ollama"), [Content("a")], end)
    assert lines[-1] == {"error": "backend connection lost"}
    assert whole(chat(front="ollama"), [Content("a")], end) == (502, {"error": "backend connection lost"})
    spoken = stream(chat(front="ollama"), [Content("a")], end, failure_as_text=True)
    assert "backend connection lost" in spoken[-2]["response"]


def test_heartbeats_are_lines_of_no_text():
    answer = generate.stream(chat(front="ollama"), id=ID, created=CREATED)
    (line,) = ndjson(answer.heartbeat(CREATED))
    assert (line["response"], line["done"]) == ("", False)


def test_an_answer_of_no_tokens():
    lines = stream(chat(front="ollama", max_tokens=0), ENDING)
    assert [line["response"] for line in lines] == [""]
    assert lines[0]["done_reason"] == "length"

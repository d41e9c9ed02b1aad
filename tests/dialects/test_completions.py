"""OpenAI's completions: what is asked, and how it is answered."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion

from buffer.job import (
    Chat,
    Content,
    End,
    Failure,
    Finish,
    Logprobs,
    Origin,
    Usage,
    decode_chat,
    encode_chat,
)
from gateway.dialects import completions, completions_answer, generate
from gateway.dialects.errors import BadRequest
from tests.dialects.events import CREATED, sse
from tests.dialects.test_any_input import cut_up, ends, events, values

TOKENS = [
    {"token": "Hel", "logprob": -0.5, "bytes": [72], "top_logprobs": [{"token": "Hel", "logprob": -0.5}]},
    {"token": "lo", "logprob": None, "top_logprobs": []},
]


def asked(**fields):
    return completions.parse(json.dumps({"model": "m", "prompt": "Once"} | fields).encode())


def refusal(**fields):
    with pytest.raises(BadRequest) as refused:
        asked(**fields)
    assert refused.value.status == 400
    return refused.value.param


def shown(**fields):
    return Chat("m", [], prompt="Once", **fields)


def stream(of, found, end=None):
    answer = completions_answer.Stream(of, id="cmpl-abc", created=CREATED)
    return sse(answer.feed(found, CREATED) + answer.end(end or End("done"), CREATED))


def whole(of, found, end=None):
    answer = completions_answer.Whole(of, id="cmpl-abc", created=CREATED)
    answer.feed(found, CREATED)
    status, body = answer.end(end or End("done"), CREATED)
    return status, json.loads(body)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("Once", ["Once"]),
        ("", [""]),
        (["a"], ["a"]),
        (["a", "", "c"], ["a", "", "c"]),
        ([1, 2], [[1, 2]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
    ],
)
def test_prompts(prompt, prompts):
    chats = asked(prompt=prompt)
    assert [chat.prompt_tokens or chat.prompt for chat in chats] == prompts
    assert all(chat.messages == [] and chat.prompt is not None for chat in chats)
    assert all(decode_chat(encode_chat(chat)) == chat for chat in chats)


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        1,
        True,
        {},
        [],
        [[]],
        [[1], []],
        ["a", 1],
        [1, "a"],
        [1.5],
        [True],
        [None],
        [["a"]],
        [[1], "a"],
        ["a"] * 257,
    ],
)
def test_prompts_that_are_none(prompt):
    assert refusal(prompt=prompt) == "prompt"


def test_defaults_are_left_to_the_engine():
    (chat,) = asked()
    assert (chat.stream, chat.max_tokens, chat.n, chat.logprobs, chat.suffix) == (False, None, 1, False, None)
    assert (chat.extra, chat.options, chat.include_usage, chat.front) == ({}, {}, False, "openai")


def test_everything_else():
    (chat,) = asked(
        suffix=" end",
        max_tokens=0,
        n=2,
        best_of=2,
        echo=True,
        logprobs=5,
        stop="x",
        temperature=0.5,
        seed=3,
        stream=True,
        stream_options={"include_usage": True},
        logit_bias={"1": 2},
        user="u",
        min_tokens=2,
        priority=-5,
        messages=[],
        tools=[{}],
        options={"num_ctx": 512, "top_k": 4},
        keep_alive="5m",
        response_format={"type": "json_object"},
    )
    assert (chat.suffix, chat.max_tokens, chat.n, chat.stop) == (" end", 0, 2, ["x"])
    assert (chat.logprobs, chat.top_logprobs) == (True, 5)
    assert (chat.sampling.temperature, chat.sampling.seed, chat.sampling.top_k) == (0.5, 3, 4)
    assert (chat.stream, chat.include_usage) == (True, True)
    assert set(chat.extra) == {"echo", "logit_bias", "user", "min_tokens"}
    assert set(chat.options) == {"num_ctx"}
    assert chat.format is not None
    assert chat.format.kind == "json"


def test_nulls_are_as_good_as_nothing():
    names = "suffix max_tokens n best_of echo logprobs stop temperature seed stream stream_options user"
    nulls = dict.fromkeys(re.findall(r"\w+", names))
    assert asked(**nulls) == asked()


@pytest.mark.parametrize(("logprobs", "told"), [(0, (True, 0)), (True, (True, 0)), (False, (False, None))])
def test_logprobs_that_ask_for_little(logprobs, told):
    (chat,) = asked(logprobs=logprobs)
    assert (chat.logprobs, chat.top_logprobs) == told


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": ""}, "model"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": "x"}, "logprobs"),
        ({"suffix": 1}, "suffix"),
        ({"echo": 1}, "echo"),
        ({"stream": "x"}, "stream"),
        ({"temperature": "x"}, "temperature"),
    ],
)
def test_what_is_wrong_is_refused(fields, param):
    assert refusal(**fields) == param


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model":"m"}', b"\xff"])
def test_bodies_that_are_none(body):
    with pytest.raises(BadRequest):
        completions.parse(body)


def test_whole():
    found = [
        Origin("fp"),
        Content("He", 0),
        Content("A", 1),
        Content("llo", 0),
        Finish("stop", 0),
        Finish("length", 1),
        Usage(7, 3),
    ]
    status, body = whole(shown(n=2), found)
    assert status == 200
    Completion.model_validate(body, strict=False)
    assert body == {
        "id": "cmpl-abc",
        "object": "text_completion",
        "created": int(CREATED),
        "model": "m",
        "system_fingerprint": "fp",
        "choices": [
            {"text": "Hello", "index": 0, "logprobs": None, "finish_reason": "stop"},
            {"text": "A", "index": 1, "logprobs": None, "finish_reason": "length"},
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def test_stream():
    found = [Content("He"), Content(""), Content("llo"), Finish("length"), Usage(7, 2)]
    *pieces, last, done = stream(shown(include_usage=True), found)
    assert done == "[DONE]"
    assert [piece["choices"][0]["text"] for piece in pieces] == ["He", "llo", ""]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None, None, "length"]
    assert {piece["object"] for piece in pieces} == {"text_completion"}
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 9)
    assert "usage" not in stream(shown(), found)[-2]


def test_probabilities_take_their_older_form():
    found = [Content("Hello"), Logprobs(json.dumps(TOKENS)), Content("!"), Finish("stop")]
    told = {
        "tokens": ["Hel", "lo"],
        "token_logprobs": [-0.5, None],
        "top_logprobs": [{"Hel": -0.5}, None],
        "text_offset": [0, 3],
    }
    assert whole(shown(logprobs=True), found)[1]["choices"][0]["logprobs"] == told
    pieces = stream(shown(logprobs=True), found)
    assert [piece["choices"][0]["logprobs"] for piece in pieces[:-1]] == [None, told, None, None]
    assert whole(shown(), found)[1]["choices"][0]["logprobs"] is None


def test_offsets_count_an_echoed_prompt_and_go_on():
    one = json.dumps(TOKENS[:1])
    found = [Content("Once"), Content("Hel"), Logprobs(one), Content("Hel"), Logprobs(one), Finish("stop")]
    told = whole(shown(logprobs=True), found)[1]["choices"][0]["logprobs"]
    assert told["text_offset"] == [4, 7]


@pytest.mark.parametrize("odd", ["[]", "[\n]", "{}", '[{"a":1}]', "x", '[{"token":1}]'])
def test_odd_probabilities_do_no_harm(odd):
    status, body = whole(shown(logprobs=True), [Content("a"), Logprobs(odd), Finish("stop")])
    assert status == 200
    assert body["choices"][0]["text"] == "a"


def test_failures():
    end = End("failed", Failure("backend connection lost"))
    assert stream(shown(), [Content("a")], end)[-2:] == [
        {
            "error": {
                "message": "backend connection lost",
                "type": "server_error",
                "param": None,
                "code": "upstream_error",
            }
        },
        "[DONE]",
    ]
    assert whole(shown(), [Content("a")], end)[0] == 502
    # It was all said before.
    assert whole(shown(), [Content("a"), Finish("stop")], end)[0] == 200


chats = st.builds(shown, n=st.just(3), logprobs=st.booleans(), include_usage=st.booleans())


@given(of=chats, found=events, cuts=st.lists(st.integers(0, 14), max_size=5), end=ends)
@settings(max_examples=200, deadline=None)
def test_an_answer_is_the_same_however_it_is_cut(of, found, cuts, end):
    at_once = completions_answer.Stream(of, id="cmpl-a", created=CREATED)
    expected = at_once.feed(found, CREATED) + at_once.end(end, CREATED)
    pieces = completions_answer.Stream(of, id="cmpl-a", created=CREATED)
    assert b"".join(pieces.feed(part, CREATED) for part in cut_up(found, cuts)) + pieces.end(end, CREATED) == expected
    chunks = sse(expected)
    assert chunks.count("[DONE]") == 1
    status, body = whole(of, found, end)
    assert sum("error" in chunk for chunk in chunks) == (status != 200)
    if status == 200:
        for choice in body["choices"]:
            mine = [
                c["choices"][0] for c in chunks[:-1] if c["choices"] and c["choices"][0]["index"] == choice["index"]
            ]
            assert "".join(piece["text"] for piece in mine) == choice["text"]
            assert [piece["finish_reason"] for piece in mine if piece["finish_reason"]] == [choice["finish_reason"]]


NAMES = re.findall(
    r"\w+",
    """
prompt suffix system template context images raw echo logprobs n best_of stream stream_options max_tokens stop options
keep_alive format think seed response_format
""",
)


@pytest.mark.parametrize("dialect", [completions, generate])
@given(body=st.dictionaries(st.sampled_from(NAMES), values, max_size=6))
@settings(max_examples=300, deadline=None)
def test_any_json_object(dialect, body):
    try:
        found = dialect.parse(json.dumps({"prompt": "x", **body, "model": "m"}).encode(), allow_image_urls=True)
    except BadRequest:
        return
    for chat in found if isinstance(found, list) else [found]:
        assert encode_chat(decode_chat(encode_chat(chat))) == encode_chat(chat)

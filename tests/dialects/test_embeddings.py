"""Whatever is sent for embeddings, a request or ``BadRequest`` comes out; and vectors as each client wants them."""

from __future__ import annotations

import base64
import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buffer.embed import Embed, decode_embed, encode_embed, numbers, packed
from buffer.job import Failure, Usage
from gateway.dialects import embeddings as dialect
from gateway.dialects.embeddings import Asked, Figures
from gateway.dialects.errors import BadRequest

PARSERS = [dialect.parse_openai, dialect.parse_ollama, dialect.parse_ollama_older]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("base64"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
NAMES = [
    "model",
    "name",
    "input",
    "prompt",
    "encoding_format",
    "dimensions",
    "truncate",
    "keep_alive",
    "options",
    "user",
    "num_ctx",
    "extra",
]


@pytest.mark.parametrize("parse", PARSERS)
@given(st.dictionaries(st.sampled_from(NAMES), values) | values)
def test_any_body(parse: object, body: object) -> None:
    if isinstance(body, dict):
        body = {"model": "m"} | body
    for text in (json.dumps(body), json.dumps(body)[:-1], ""):
        with contextlib.suppress(BadRequest):
            asked = parse(text.encode())  # type: ignore[operator]
            assert decode_embed(encode_embed(asked.embed)) == asked.embed


def test_openai_s_body() -> None:
    asked = dialect.parse_openai(
        b'{"model":"M","input":["a","b"],"encoding_format":"base64","dimensions":3,"user":"u","cache_salt":"s",'
        b'"options":{"num_ctx":5},"num_batch":7,"priority":1}'
    )
    assert (asked.cut, asked.base64) == (3, True)
    assert asked.embed.inputs == ["a", "b"]
    assert (asked.embed.dimensions, asked.embed.truncate, asked.embed.raw) == (3, None, False)
    assert set(asked.embed.options) == {"num_ctx", "num_batch"}
    assert set(asked.embed.extra) == {"cache_salt"}
    assert dialect.parse_openai(b'{"model":"M","input":[1,2]}').embed.inputs == [[1, 2]]
    assert dialect.parse_openai(b'{"model":"M","input":[[1],[2]]}').embed.inputs == [[1], [2]]


def test_ollama_s_bodies() -> None:
    asked = dialect.parse_ollama(b'{"name":"M","input":"a","dimensions":2,"keep_alive":"5m"}')
    assert (asked.cut, asked.embed.inputs, asked.embed.truncate, asked.embed.dimensions) == (2, ["a"], True, None)
    assert dialect.parse_ollama(b'{"model":"M","input":"a","dimensions":0}').cut is None
    for nothing in (b"", b',"input":""', b',"input":[]', b',"input":null'):
        assert dialect.parse_ollama(b'{"model":"M"%b}' % nothing).embed.inputs == []
    older = dialect.parse_ollama_older(b'{"model":"M","prompt":"a"}')
    assert (older.embed.inputs, older.embed.raw) == (["a"], True)


def test_answers() -> None:
    vector = packed([3.0, 4.0, 12.0])
    figures = Figures(Usage(7, 0, load_ns=5), total_s=0.5, queued_s=0.25)
    plain, shorter = Asked(Embed('M"', ["a"])), Asked(Embed("M", ["a"]), cut=2, base64=True)
    told = json.loads(dialect.openai_answer(plain, [vector], figures))
    assert told == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [3.0, 4.0, 12.0]}],
        "model": 'M"',
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }
    told = json.loads(dialect.openai_answer(shorter, [vector], figures))
    assert numbers(base64.b64decode(told["data"][0]["embedding"])).tolist() == pytest.approx([0.6, 0.8])
    told = json.loads(dialect.ollama_answer(plain, [vector], figures))
    assert told["embeddings"][0] == pytest.approx([3 / 13, 4 / 13, 12 / 13])
    counts = {"total_duration": 500_000_000, "load_duration": 250_000_005, "prompt_eval_count": 7}
    assert {name: told[name] for name in counts} == counts
    told = json.loads(dialect.ollama_answer(Asked(Embed("M", []), cut=2), [vector], figures))
    assert told["embeddings"][0] == pytest.approx([0.6, 0.8])
    assert json.loads(dialect.ollama_answer(plain, [], Figures(Usage(0, 0)))) == {"model": 'M"', "embeddings": []}
    assert json.loads(dialect.ollama_older_answer(plain, [vector], figures)) == {"embedding": [3.0, 4.0, 12.0]}
    assert json.loads(dialect.ollama_older_answer(plain, [], figures)) == {"embedding": []}


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40))
def test_length_one(values_of: list[float]) -> None:
    vector = packed(values_of)
    length = math.hypot(*numbers(dialect.unit(vector)))
    if math.hypot(*values_of) < 1e-30:
        return
    assert math.isclose(length, 1, abs_tol=2e-4)
    assert dialect.shortened(vector, None) == dialect.shortened(vector, 40) == vector


def test_refusals() -> None:
    long = Failure("This model's maximum context length is 5 tokens.", 400, "context_length_exceeded", "input")
    assert json.loads(dialect.ollama_error(long)) == {"error": "the input length exceeds the context length"}
    assert dialect.ollama_unknown_model("x").message == 'model "x" not found, try pulling it first'

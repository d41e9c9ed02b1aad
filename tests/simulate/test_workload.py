import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from simulate.workload import MIX, REFUSAL, WORKLOADS, TraceError, at_rate, parse_trace, rate_of, read_trace

TRACE = """arrival_s,prompt_tokens,output_tokens,class,cached_prefix_tokens_infinite_cache
2.0,374,44,conv,0
6.0,396,109,conv,128
4.0,10,0,conv,0
"""


def test_the_named_workloads() -> None:
    assert list(WORKLOADS) == ["chat", "mix", "mix85k", "refusal"]
    assert WORKLOADS["chat"].closed
    assert {(one.prompt_tokens, one.output_tokens) for one in WORKLOADS["chat"].draw(9, 1)} == {(512, 256)}
    assert REFUSAL.load == 1.3
    assert REFUSAL.refuse_wait_s == {"fast": 5, "normal": 20, "slow": 90}


def test_a_mix_has_its_shares() -> None:
    counts = Counter((one.prompt_tokens, one.output_tokens) for one in MIX.draw(20_000, 1))
    assert set(counts) == {(60, 128), (4_000, 256), (24_000, 512)}
    assert counts[60, 128] / 20_000 == pytest.approx(0.7, abs=0.02)
    assert counts[24_000, 512] / 20_000 == pytest.approx(0.1, abs=0.02)


def test_poisson_arrivals() -> None:
    arrivals = MIX.poisson(20_000, 2.0, 1)
    gaps = [later.at_s - earlier.at_s for earlier, later in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(0.5, rel=0.03)
    assert spread == pytest.approx(mean, rel=0.05)


def test_a_seed_repeats_itself_at_any_load() -> None:
    slow, quick = MIX.poisson(100, 1.0, 7), MIX.poisson(100, 4.0, 7)
    assert slow == MIX.poisson(100, 1.0, 7) != MIX.poisson(100, 1.0, 8)
    assert [one.prompt_tokens for one in slow] == [one.prompt_tokens for one in quick]
    assert [one.at_s / 4 for one in slow] == pytest.approx([one.at_s for one in quick])
    with pytest.raises(ValueError):
        MIX.poisson(1, 0.0, 1)


def test_a_trace_is_read_in_order_from_0() -> None:
    arrivals = parse_trace(TRACE.splitlines())
    assert [(one.at_s, one.prompt_tokens, one.output_tokens, one.shared_tokens) for one in arrivals] == [
        (0.0, 374, 44, 0),
        (2.0, 10, 1, 0),
        (4.0, 396, 109, 128),
    ]


def test_a_trace_is_stretched_by_one_factor() -> None:
    arrivals = parse_trace(TRACE.splitlines())
    assert rate_of(arrivals) == 0.5
    assert [one.at_s for one in at_rate(arrivals, 0.25)] == [0.0, 4.0, 8.0]
    assert at_rate(arrivals[:1], 3.0) == arrivals[:1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arrival_s,prompt_tokens\n1,2\n", "lacks the column output_tokens"),
        ("arrival_s,prompt_tokens,output_tokens\n", "has no requests"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2,3\n1,x,3\n", "line 3: not a number"),
        ("arrival_s,prompt_tokens,output_tokens\n1,2\n", "line 2: not a number"),
        ("arrival_s,prompt_tokens,output_tokens\nnan,2,3\n", "line 2: a number out of range"),
        ("arrival_s,prompt_tokens,output_tokens\n1,-2,3\n", "line 2: a number out of range"),
    ],
)
def test_files_that_are_no_trace(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match=says) as error:
        read_trace(path)
    assert "trace.csv" in str(error.value)


@pytest.mark.parametrize("content", [b"arrival_s\x8c", b"arrival_s,prompt_tokens,output_tokens\n" + b"1" * 200_000])
def test_files_that_are_no_text(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"trace\.csv is no CSV"):
        read_trace(path)

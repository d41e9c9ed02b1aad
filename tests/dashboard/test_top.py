"""``doublebuffer top``: its frame, and the command in a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from buffer.glance import away, figures, for_admins, glance
from buffer.overview import LaneView, LetterView
from buffer.recent import last_slot, read_counts
from buffer.setting_values import ApiKey
from doublebuffer.top_frame import frame
from doublebuffer.top_paper import Paper, columns, fit, plain, wrap
from tests.dashboard.test_glance import engine, seen
from tests.gateway.rig import rig
from tests.rig.processes import clean_environment, run_to_end
from tests.rig.redis_server import RedisServer

NOTHING = figures({}, 1000.0)
INK = re.compile(r"\x1b\[[\d;]*m")


def shown(overview: Any, width: int = 100, height: int = 0, *, colours: bool = False) -> list[str]:
    return frame({"version": "1.2.3"} | glance(overview, NOTHING), Paper(width, height, colours), note="12:00:00")


def test_a_frame_tells_what_the_page_tells() -> None:
    down = engine("old", state="down", error="Back end 'old' cannot be reached.")
    text = "\n".join(shown(seen([engine(jobs=3, kv=500), down], waiting=4, oldest_s=9.0)))
    assert "▲ 1 of 2 back ends can be reached. 3 under way, 4 wait, the longest for 9.0 s." in text
    assert re.search(r"^fast +4 █+·+ +9\.0 s +3 ", text, re.MULTILINE)
    assert re.search(r"^big +vLLM +up +███····· 3/8 +████···· 500/1\.0k ", text, re.MULTILINE)
    assert re.search(r"^old +vLLM +down +Back end 'old' cannot be reached\.$", text, re.MULTILINE)


def test_the_cache_has_a_line_where_there_is_one() -> None:
    last = last_slot(1000.0)
    known = figures({last: read_counts({"cache:hit": 2, "cache:miss": 1})}, 1000.0)
    overview = {"version": "1"} | glance(seen([engine(jobs=1)]), known)
    text = "\n".join(frame(overview, Paper(80, 24, False)))
    assert re.search(r"^Cache +67% +of 3 in 5 min ", text, re.MULTILINE)
    # Some run, and their tokens were not told yet.
    assert re.search(r"^Tokens/s +– +none told yet", text, re.MULTILINE)
    assert "Cache" not in "\n".join(shown(seen([engine()])))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    names = [f"模型-{'x' * i}" for i in range(0, 60, 7)]
    engines = [
        engine(name, models=names, jobs=99999, limit=99999, error="Ä" * 300, state="up" if i % 2 == 0 else "down")
        for i, name in enumerate(names)
    ]
    lines = shown(seen(engines, waiting=123456, oldest_s=86400.0), width)
    wide = max(lines, key=columns)
    assert columns(wide) <= max(width, 80), wide


def test_at_80_by_24_no_name_that_one_has_to_ask_for_is_cut() -> None:
    long = "hf.co/unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M"
    many = ["qwen3:14b", "llama3.1:8b", "nomic-embed-text", "mistral:7b"]
    why = "Back end 'old' at http://10.1.2.3:8000 cannot be reached: the connection was refused after three seconds."
    engines = [
        engine("simulated", kind="openai", models=["simulated-qwen3:14b"]),
        engine("a-name-of-20-letters", models=[long]),
        engine("ollama", models=many, kv_tokens=0),
        engine("old", state="down", error=why),
    ]
    lanes = [LaneView(name=name) for name in ("thinking", "fast", "normal", "slow", "background")]
    lines = shown(seen(engines, lanes=lanes), 80, 24)
    text = "\n".join(lines)
    assert len(lines) <= 24
    assert all(columns(line) <= 80 for line in lines)
    assert re.search(r"^simulated +up +0/8 +0/1\.0k +0  simulated-qwen3:14b$", text, re.MULTILINE)
    assert f"\n  {long}\n" in text
    assert re.search(r"^ollama .*  qwen3:14b \+3$", text, re.MULTILINE)
    assert why in re.sub("\n +", " ", text)
    assert lines[-1].startswith("DEAD LETTERS")


def test_what_waits_is_shown_before_lanes_without_anybody() -> None:
    lanes = [LaneView(name=name, waiting=int(name == "slow")) for name in ("thinking", "fast", "normal", "slow")]
    text = "\n".join(shown(seen([engine(f"e{i}") for i in range(8)], lanes=lanes), 80, 24))
    assert re.search("^slow +1 ", text, re.MULTILINE)
    assert "thinking" not in text
    assert "e7" in text


def test_a_dead_letter_s_reason_is_told_whole() -> None:
    reason = "Three workers died over it, one after the other, and nobody knows why that was so."
    letter = LetterView(ref="ab" * 6, at=900.0, lane="fast", model="m", reason=reason)
    overview = {"version": "1"} | glance(seen([engine()]), NOTHING) | for_admins(seen([engine()], letters=[letter]))
    assert reason in re.sub("\n +", " ", "\n".join(frame(overview, Paper(80, 24, False))))


def test_of_more_engines_than_there_are_lines_the_troubled_are_shown() -> None:
    engines = [engine(f"e{i:02}", state="up" if i != 17 else "down") for i in range(40)]
    lines = shown(seen(engines), 100, 24)
    assert len(lines) <= 24
    assert any(line.startswith("e17") for line in lines)
    assert any(re.fullmatch(r"… and \d+ more", line) for line in lines)
    assert lines[-1].startswith("DEAD LETTERS")


def test_nothing_that_a_terminal_would_obey_comes_through() -> None:
    assert plain("a\x1b]0;owned\x07b\nc\u202e") == "a ]0;owned b c "
    text = "\n".join(shown(seen([engine("x\x1b[2J", state="down", error="\x1b[31mred\r")])))
    assert "\x1b" not in text
    assert "\r" not in text
    coloured = "\n".join(shown(seen([engine()]), colours=True))
    assert "\x1b" not in INK.sub("", coloured)


def test_broken_between_words() -> None:
    assert wrap("one two three", 7, 3) == ["one two", "three"]
    assert wrap("one two three four", 7, 2) == ["one two", "three…"]
    assert wrap("abcdefghij k", 4, 9) == ["abcd", "efgh", "ij k"]
    assert wrap("模型名模型名", 4, 9) == ["模型", "名模", "型名"]
    assert wrap("", 4, 2) == [""]


def test_cut_to_columns() -> None:
    assert [fit("abc", 3), fit("abcd", 3), fit("a", 3), fit("模型名", 4)] == ["abc", "ab…", "a  ", "模… "]


def test_a_store_that_is_away_is_told_first() -> None:
    told = away("Redis cannot be reached.", 1000.0, None)
    assert frame({"version": "1"} | told, Paper(80, 24, False))[1] == "✕ Redis cannot be reached."


async def test_from_a_gateway_with_its_key(tmp_path: Path) -> None:
    async with rig(api_keys=[ApiKey(name="ann", key="k-ann")]) as r:
        code, out, _ = await run_to_end(["top", "--once", "--url", r.url, "--key", "k-ann"], directory=tmp_path)
        assert code == 0
        assert "● All is well. Nobody waits." in out
        assert re.search("^engine +", out, re.MULTILINE)
        code, out, log = await run_to_end(["top", "--once", "--url", r.url], directory=tmp_path)
        assert (code, out) == (2, "")
        assert log == "doublebuffer: --key: this gateway asks for a key, and nobody there has this one.\n"
    code, _, log = await run_to_end(["top", "--once", "--url", "http://127.0.0.1:1"], directory=tmp_path)
    assert (code, log) == (2, "doublebuffer: --url: http://127.0.0.1:1 does not answer.\n")


async def test_from_redis_in_a_terminal(redis_server: RedisServer, tmp_path: Path) -> None:
    """It takes the terminal, follows its size, ends by q and by Ctrl-C, and gives the terminal back."""
    for word in (b"q", b"\x03"):
        ours, theirs = pty.openpty()
        _resize(theirs, 24, 80)
        before = termios.tcgetattr(theirs)
        prefix = ("--key-prefix", f"t-{os.getpid()}")
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "doublebuffer", "top", "--redis-url", redis_server.url, *prefix),
            env=clean_environment(),
            cwd=tmp_path,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        try:
            told = await _until(ours, "No worker is running", "DEAD LETTERS")
            assert told.startswith("\x1b[?1049h")
            _resize(theirs, 30, 130)
            child.send_signal(signal.SIGWINCH)
            # What is between the first line's two ends.
            assert " " * 90 not in told
            await _until(ours, " " * 90)
            if word == b"q":
                os.write(ours, word)
            else:
                # As a terminal of its own would send it. The byte beside it would have the kernel throw away, now or
                # later, what the command writes.
                child.send_signal(signal.SIGINT)
            async with asyncio.timeout(20):
                assert await child.wait() == 0
            assert "\x1b[?1049l" in await _until(ours, "\x1b[?1049l")
            assert termios.tcgetattr(theirs)[3] == before[3]
        finally:
            if child.returncode is None:
                child.kill()
            os.close(ours)
            os.close(theirs)


def _resize(terminal: int, lines: int, width: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, width, 0, 0))


async def _until(terminal: int, *words: str) -> str:
    """What was written, once all of these words have been."""
    os.set_blocking(terminal, False)
    told = b""
    try:
        async with asyncio.timeout(30):
            while not all(word in told.decode(errors="replace") for word in words):
                try:
                    told += os.read(terminal, 65536)
                except BlockingIOError:
                    await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it wrote {told.decode(errors='replace')!r}") from None
    return told.decode(errors="replace")

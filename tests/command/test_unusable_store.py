"""A Redis that answers and cannot be used: every command that opens it ends with one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from buffer.store import StoreUnavailable, open_store
from buffer.trouble import NO_COMMAND, NO_DATABASE, NO_REDIS
from doublebuffer.doctor import run_doctor
from doublebuffer.starting import connect
from tests.rig.processes import run_to_end
from tests.rig.redis_server import RedisServer, run_redis

BACKENDS = '[{"name": "a", "kind": "vllm", "url": "http://127.0.0.1:1"}]'
STARTS = (
    ["up", "--port", "0", "--backends", BACKENDS],
    ["gateway", "--port", "0"],
    ["gateway", "--port", "0", "--processes", "2"],
    ["worker", "--backends", BACKENDS],
)
DEAD = (["dead", "list"], ["dead", "drop", "ALL"])


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with run_redis() as found:
        yield found


@asynccontextmanager
async def answering(words: bytes) -> AsyncIterator[str]:
    """What says the same to every command."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while came := await reader.read(65536):
            writer.write(words * sum(line.startswith(b"*") for line in came.splitlines()))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        yield f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}/0"


def no_redis() -> AbstractAsyncContextManager[str]:
    return answering(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def ends_with_a_sentence(command: list[str], url: str, told: str, directory: Path) -> None:
    code, out, log = await run_to_end([*command, "--redis-url", url], directory=directory)
    assert (code, out) == (2, ""), log
    assert log.startswith("doublebuffer: ")
    assert log.endswith(".\n")
    assert log.count("\n") == 1
    assert "REDIS_URL" in log
    assert told.rstrip(".") in log


@pytest.mark.parametrize("command", [*STARTS, *DEAD], ids=" ".join)
async def test_a_database_that_the_server_does_not_have(
    command: list[str], server: RedisServer, tmp_path: Path
) -> None:
    await ends_with_a_sentence(command, server.url.removesuffix("/0") + "/99", NO_DATABASE.text, tmp_path)


async def told_by(url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``connect`` refuses it with; the doctor says the same."""
    settings = Settings(redis_url=url)
    with pytest.raises(SettingsError) as refused:
        await connect(settings)
    assert await run_doctor(lambda: settings, []) == 1
    assert f"✗ Redis: {refused.value}\n  → " in capsys.readouterr().out
    sentence = str(refused.value)
    assert sentence.startswith("REDIS_URL: redis://127.0.0.1:")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


async def test_what_answers_is_no_redis(capsys: pytest.CaptureFixture[str]) -> None:
    async with no_redis() as url:
        assert NO_REDIS.text in await told_by(url, capsys)


@pytest.mark.parametrize("option", ["foo=1", "db=x"])
async def test_an_option_that_is_none(option: str, server: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    await told_by(f"{server.url}?{option}", capsys)


@pytest.mark.parametrize("command", ["EVALSHA", "SET"])
async def test_a_server_without_a_command_that_is_needed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with run_redis("--rename-command", command, "") as lacking:
        assert NO_COMMAND.text.rstrip(".") in await told_by(lacking.url, capsys)


async def test_an_error_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a server may come to say."""
    async with answering(b"-WHAT is this\r\n") as url:
        assert "WHAT is this" in await told_by(url, capsys)


async def test_the_doctor_says_so_and_ends_with_1(server: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert NO_DATABASE.text in await told_by(server.url.removesuffix("/0") + "/99", capsys)


async def test_a_database_that_went_is_an_outage(server: RedisServer) -> None:
    """It is the connection that is refused, not the command."""
    store = await open_store(server.url.removesuffix("/0") + "/99")
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=NO_DATABASE.text):
                await store.ping()
        assert store.away() == NO_DATABASE
    finally:
        await store.aclose()

"""What the doctor tells of and does not call a fault: answers that are simulated, and a spare that rests."""

from __future__ import annotations

import pytest

from buffer.backend import BackendSpec
from buffer.keys import Keys
from buffer.load import BackendState, publish_state
from buffer.settings import Settings
from buffer.store import open_store
from doublebuffer.simulated import simulated_engine
from tests.command.test_doctor import engine, examined, only
from tests.command.test_up import living
from tests.rig.redis_server import free_port, run_redis

NONE = "none is configured, and none was found"


async def test_beside_an_up_that_simulates(capsys: pytest.CaptureFixture[str]) -> None:
    async with living(capsys, [], Settings(port=0)) as (url, _):
        findings = await examined(capsys, Settings(port=int(url.rpartition(":")[2])))
    (noted,) = [finding for finding in findings if finding.level != "fine"]
    assert (noted.level, noted.topic) == ("note", "back ends")
    assert noted.text.startswith(NONE)
    assert noted.text.endswith("SIMULATED, so its answers mean nothing")


async def test_with_nothing_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    only(await examined(capsys, Settings(port=free_port())), NONE, "start an engine")


async def test_beside_an_up_on_an_engine_that_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    async with engine("vllm") as one:
        specs = [BackendSpec(name="real", kind="vllm", url=one.url)]
        async with living(capsys, [], Settings(port=0, backends=specs)) as (url, _):
            findings = await examined(capsys, Settings(port=int(url.rpartition(":")[2])))
    only(findings, NONE, "set DOUBLEBUFFER_BACKENDS")


@pytest.mark.parametrize("simulated", [True, False])
async def test_what_the_workers_of_a_redis_tell(capsys: pytest.CaptureFixture[str], simulated: bool) -> None:
    with run_redis() as server:
        store = await open_store(server.url)
        try:
            state = BackendState(name="b", kind="openai", up=True, simulated=simulated)
            await publish_state(store, Keys(), state, 20.0)
            findings = await examined(capsys, Settings(redis_url=server.url, port=free_port()))
        finally:
            await store.aclose()
    (found,) = [finding for finding in findings if finding.topic == "back ends"]
    assert found.level == ("note" if simulated else "wrong")


async def test_a_simulated_engine_that_is_configured(capsys: pytest.CaptureFixture[str]) -> None:
    async with simulated_engine() as spec:
        findings = await examined(capsys, Settings(backends=[spec]))
    (noted,) = [finding for finding in findings if finding.level != "fine"]
    assert noted.level == "note"
    assert noted.text.endswith(", SIMULATED")


async def test_a_spare_that_does_not_run_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    spare = BackendSpec(name="spare", kind="vllm", url=url, start=["true"], models={"m": "m"})
    findings = await examined(capsys, Settings(backends=[spare]))
    assert all(finding.level == "fine" for finding in findings)
    assert any("a spare" in finding.text for finding in findings)

"""GPUs in a worker's metrics, by a library of NVIDIA's that is played."""

from __future__ import annotations

import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from buffer.telemetry import Telemetry
from doublebuffer.counting import telling_of
from tests.telemetry.hiding import hidden
from worker.gpu import watch_gpus


class NVMLError(Exception):
    pass


class Nvml(ModuleType):
    """Two GPUs; ``without``: what the second one does not tell."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = 0

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.count = 2
        self.broken = False
        self.without: set[str] = set()
        self.asked = 0

    def nvmlInit(self) -> None:
        if self.broken:
            raise NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetTemperature(self, gpu: int, sensor: int) -> int:
        return self._told("temperature", gpu, 60 + gpu + sensor)

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:
        return SimpleNamespace(gpu=self._told("load", gpu, 85), memory=40)

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> Any:
        return SimpleNamespace(total=24 << 30, used=self._told("memory", gpu, 10 << 30), free=14 << 30)

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> int:
        return self._told("power", gpu, 310_500)

    def _told(self, what: str, gpu: int, value: int) -> int:
        self.asked += 1
        if gpu == 1 and what in self.without:
            raise NVMLError("Not Supported")
        return value


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    played = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", played)
    return played


def test_each_gpu_tells_its_figures(nvml: Nvml) -> None:
    telemetry = Telemetry()
    assert watch_gpus(telemetry.registry)
    assert nvml.asked == 0
    text = telemetry.exposition(None).decode()
    for line in (
        'doublebuffer_gpu_temperature_celsius{gpu="0"} 60.0',
        'doublebuffer_gpu_temperature_celsius{gpu="1"} 61.0',
        'doublebuffer_gpu_utilization_ratio{gpu="0"} 0.85',
        'doublebuffer_gpu_memory_used_bytes{gpu="1"} 1.073741824e+10',
        'doublebuffer_gpu_memory_total_bytes{gpu="1"} 2.5769803776e+10',
        'doublebuffer_gpu_power_watts{gpu="0"} 310.5',
        "# TYPE doublebuffer_gpu_power_watts gauge",
    ):
        assert line in text


@pytest.mark.parametrize("engines_near", [True, False])
async def test_whoever_works_with_engines_tells_of_gpus_and_a_gateway_does_not(nvml: Nvml, engines_near: bool) -> None:
    async with telling_of("it", engines_near=engines_near) as telemetry:
        assert (b'doublebuffer_gpu_power_watts{gpu="1"} 310.5' in telemetry.exposition(None)) == engines_near
        assert telemetry.spans is None
    assert (nvml.asked > 0) == engines_near


def test_what_one_does_not_tell_is_left_out_and_said_once(nvml: Nvml, caplog: pytest.LogCaptureFixture) -> None:
    nvml.without = {"power", "load"}
    registry = CollectorRegistry()
    watch_gpus(registry)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            text = generate_latest(registry).decode()
    assert 'doublebuffer_gpu_power_watts{gpu="0"} 310.5' in text
    assert 'power_watts{gpu="1"}' not in text
    assert 'doublebuffer_gpu_temperature_celsius{gpu="1"} 61.0' in text
    assert [record.message for record in caplog.records] == ["GPU 1 does not tell its utilization_ratio: Not Supported"]


def _broken(nvml: Nvml) -> None:
    nvml.broken = True


def _none(nvml: Nvml) -> None:
    nvml.count = 0


@pytest.mark.parametrize(("breaks", "words"), [(_broken, "Driver Not Loaded"), (_none, "knows of none")])
def test_a_library_without_gpus_costs_nothing(
    nvml: Nvml, caplog: pytest.LogCaptureFixture, breaks: Any, words: str
) -> None:
    breaks(nvml)
    _says_once_and_shows_nothing(caplog, words)


def test_without_the_library_nothing_is_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    with hidden("pynvml"):
        _says_once_and_shows_nothing(caplog, "pip install 'doublebuffer[gpu]'")


def test_the_real_library_on_a_machine_without_a_driver(caplog: pytest.LogCaptureFixture) -> None:
    """Where it is installed, and as on any machine that has a GPU the other way."""
    with caplog.at_level(logging.DEBUG):
        assert watch_gpus(CollectorRegistry()) == (not caplog.records)


def _says_once_and_shows_nothing(caplog: pytest.LogCaptureFixture, words: str) -> None:
    registry = CollectorRegistry()
    with caplog.at_level(logging.DEBUG):
        assert not watch_gpus(registry)
    assert b"gpu" not in generate_latest(registry)
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert words in record.message

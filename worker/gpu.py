"""This machine's GPUs in a worker's metrics, where NVIDIA's library is there to tell of them.

They are asked when somebody scrapes, and at no other time.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

log = logging.getLogger("doublebuffer.worker")

FIGURES = {
    "temperature_celsius": "Temperature of the GPU.",
    "utilization_ratio": "Share of the last moment in which the GPU computed, 0 to 1.",
    "memory_used_bytes": "Memory of the GPU that is in use, by all programs.",
    "memory_total_bytes": "Memory of the GPU.",
    "power_watts": "What the GPU draws.",
}


def watch_gpus(registry: CollectorRegistry) -> bool:
    """Adds the GPUs to what is scraped. False: none is to be seen here, which the log says at debug level."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        log.debug("no GPU is looked at: nvidia-ml-py is not installed (pip install 'doublebuffer[gpu]')")
        return False
    try:
        nvml.nvmlInit()
        found = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    except (nvml.NVMLError, OSError) as error:
        log.debug("no GPU is looked at: NVIDIA's library says: %s", error)
        return False
    if not found:
        log.debug("no GPU is looked at: NVIDIA's library knows of none")
        return False
    registry.register(_Gpus(nvml, found))
    return True


class _Gpus(Collector):
    def __init__(self, nvml: Any, found: list[Any]) -> None:
        self._nvml = nvml
        self._found = found
        self._silent = False

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """So that to be registered asks no GPU anything."""
        return [_family(name) for name in FIGURES]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        families = {name: _family(name) for name in FIGURES}
        for index, gpu in enumerate(self._found):
            for name, ask in self._questions(gpu).items():
                try:
                    value = ask()
                except (self._nvml.NVMLError, OSError) as error:
                    self._say(index, name, error)
                else:
                    families[name].add_metric([str(index)], value)
        return families.values()

    def _questions(self, gpu: Any) -> dict[str, Callable[[], float]]:
        nvml = self._nvml
        return {
            "temperature_celsius": lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            "utilization_ratio": lambda: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
            "memory_used_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu).used,
            "memory_total_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu).total,
            "power_watts": lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
        }

    def _say(self, index: int, name: str, error: Exception) -> None:
        """Not every GPU tells all of it."""
        if not self._silent:
            self._silent = True
            log.debug("GPU %d does not tell its %s: %s", index, name, error)


def _family(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"doublebuffer_gpu_{name}", FIGURES[name], labels=["gpu"])

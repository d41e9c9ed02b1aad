"""NVIDIA's library, played for a process: one card that is at work. Its names are NVIDIA's."""

from __future__ import annotations

from types import SimpleNamespace

NVML_TEMPERATURE_GPU = 0


class NVMLError(Exception):
    pass


def nvmlInit() -> None:
    return


def nvmlDeviceGetCount() -> int:
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetTemperature(gpu: int, sensor: int) -> int:
    return 61 + gpu + sensor


def nvmlDeviceGetUtilizationRates(gpu: int) -> SimpleNamespace:
    return SimpleNamespace(gpu=85 + gpu, memory=40)


def nvmlDeviceGetMemoryInfo(gpu: int) -> SimpleNamespace:
    return SimpleNamespace(total=24 << 30, used=(10 + gpu) << 30, free=(14 - gpu) << 30)


def nvmlDeviceGetPowerUsage(gpu: int) -> int:
    return 310_500 + gpu

"""What Redis knows at one moment, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class BackendGauges:
    """One back end as Redis has it now."""

    in_flight: int
    """Jobs granted to it, over all workers."""
    in_flight_limit: int
    up: bool | None
    """None: a spare that does not run at the moment."""
    breaker_open: bool


@dataclass(frozen=True, slots=True)
class Gauges:
    """What Redis knows at one moment, over all pools."""

    queue_depth: Mapping[str, int] = field(default_factory=dict)
    """Waiting jobs by lane."""
    oldest_wait_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the longest waiting job of a lane has waited; 0 for an empty lane."""
    backends: Mapping[str, BackendGauges] = field(default_factory=dict)
    workers: int = 0


class GaugeCollector(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[GaugeMetricFamily]:
        gauges = self._gauges
        yield _family("queue_depth", "Waiting jobs.", "lane", gauges.queue_depth)
        yield _family("oldest_wait_seconds", "Age of the longest waiting job.", "lane", gauges.oldest_wait_s)
        backends = gauges.backends
        yield _family("in_flight", "Jobs at a back end.", "backend", {n: b.in_flight for n, b in backends.items()})
        yield _family(
            "in_flight_limit",
            "Most jobs at a back end at a time.",
            "backend",
            {n: b.in_flight_limit for n, b in backends.items()},
        )
        yield _family(
            "backend_up",
            "1: the last probe was answered.",
            "backend",
            {n: b.up for n, b in backends.items() if b.up is not None},
        )
        yield _family(
            "breaker_open",
            "1: the circuit breaker keeps jobs away.",
            "backend",
            {n: b.breaker_open for n, b in backends.items()},
        )
        workers = GaugeMetricFamily("doublebuffer_workers", "Workers alive.")
        workers.add_metric([], gauges.workers)
        yield workers


def _family(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"doublebuffer_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], float(value))
    return family

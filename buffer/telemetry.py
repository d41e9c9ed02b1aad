"""What Prometheus may know of a gateway or a worker.

Counters and histograms are kept by the process that counts; with ``PROMETHEUS_MULTIPROC_DIR`` set before the first
import, ``exposition`` gives the totals of all processes that share the folder. What stands in Redis is not kept at all:
it is read when somebody asks, as ``Gauges``, so that a process that has died leaves no number behind.

No label takes a value that a client can choose.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from buffer.gauge_metrics import GaugeCollector, Gauges
from buffer.job import LANES
from buffer.observed import Noted, Observed
from buffer.recent import Recent

if TYPE_CHECKING:
    from buffer.spans import Spans

Kept = TypeVar("Kept", bound=Observed)

Api = Literal["ollama", "openai", "anthropic", "responses", "batch"]
Outcome = Literal["ok", "client_error", "backend_error", "refused", "cancelled", "expired"]
AttemptResult = Literal["ok", "refused", "failed", "broken", "cancelled"]
CacheResult = Literal["hit", "miss", "bypass", "joined"]
Direction = Literal["prompt", "cached", "completion"]
Estimate = Literal["prompt_tokens", "output_tokens", "prefill_seconds", "wait_seconds"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

_WAITS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_ANSWERS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_GAPS_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 5)
_WINDOWS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_RATIOS = (0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)
_LEAST_WAIT_S = 0.1
"""Of shorter waits, nobody asks by how much they were misjudged."""
_BATCHES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64)


class Telemetry:
    """All metrics of a process; built once and passed on by argument, also where gateway and worker share a process."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._multiprocess_dir = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
        self._observed: list[Observed] = []
        self.registry = _Registry(self._tell)
        self.recent = Recent()
        """What is told to those who look on; has to run beside."""
        self.recent.before_told = self._tell
        self.spans: Spans | None = None
        """Makes spans of requests; None: nobody wants traces."""
        self.requests = self._counter("requests", "Requests by how they ended.", "api", "lane", "outcome")
        self._requests: dict[tuple[Api, str, Outcome], Counter] = {}
        waits = self._by_lane("queue_wait_seconds", "From arrival to the first dispatch.", _WAITS_S)
        self.queue_wait = self._noted("wait", waits)
        batches = self._histogram("batch_size", "Jobs in a batch.", _BATCHES)
        self.batch_size = self._kept(Noted(batches, self.recent, "batch", sizes=True))
        windows = self._histogram("batch_window_seconds", "Time a batch waited for companions.", _WINDOWS_S)
        self.batch_window = self._kept(Observed(windows))
        firsts = self._by_lane(
            "time_to_first_token_seconds", "From arrival to the first piece of the answer.", _ANSWERS_S
        )
        self.time_to_first_token = self._noted("first", firsts)
        gaps = self._by_lane("inter_token_seconds", "Between two pieces of an answer.", _GAPS_S)
        self.inter_token = {lane: self._kept(Observed(one)) for lane, one in gaps.items()}
        times = self._by_lane("request_seconds", "From arrival to the end of the answer.", _ANSWERS_S)
        self.request_time = {lane: self._kept(Observed(one)) for lane, one in times.items()}
        tokens = self._counter("tokens", "Tokens as the engines count them.", "direction")
        self.tokens: dict[Direction, Counter] = {
            "prompt": tokens.labels("prompt"),
            "cached": tokens.labels("cached"),
            "completion": tokens.labels("completion"),
        }
        self.attempts = self._counter("attempts", "Tries at back ends by how they ended.", "backend", "result")
        self._attempts: dict[tuple[str, AttemptResult], Counter] = {}
        self.fallbacks = self._counter("fallback", "Jobs that a back end took in place of another.", "backend")
        self.taken_over = self._counter("taken_over", "Jobs taken over from a silent worker.")
        self.resumed = self._counter("resumed", "Answers continued on another attempt.")
        self.dead_letters = self._counter("dead_letter", "Jobs that went to the dead letters.")
        cache = self._counter("cache", "Requests by what the answer cache had.", "result")
        self.cache: dict[CacheResult, Counter] = {
            "hit": cache.labels("hit"),
            "miss": cache.labels("miss"),
            "bypass": cache.labels("bypass"),
            "joined": cache.labels("joined"),
        }

        estimates = self._histogram("estimate_ratio", "What was expected, as a multiple of what came.", _RATIOS, "kind")
        self._estimates = {kind: self._kept(Observed(estimates.labels(kind))) for kind in get_args(Estimate)}

    def estimated(self, kind: Estimate, expected: float, real: float) -> None:
        """Compares. Waits of less than a tenth of a second count as that long, and two such are no comparison."""
        if kind == "wait_seconds":
            if max(expected, real) < _LEAST_WAIT_S:
                return
            expected, real = max(_LEAST_WAIT_S, expected), max(_LEAST_WAIT_S, real)
        if expected > 0 and real > 0:
            self._estimates[kind].observe(expected / real)

    def request_ended(self, api: Api, lane: str, outcome: Outcome) -> None:
        """Counts a request. ``lane`` is one of the lanes, or ``none`` for a request that never got one."""
        counter = self._requests.get((api, lane, outcome))
        if counter is None:
            counter = self._requests[api, lane, outcome] = self.requests.labels(api, lane, outcome)
        counter.inc()
        self.recent.add(f"ended:{outcome}")

    def cached(self, result: CacheResult) -> None:
        """Counts a request by what the answer cache had for it."""
        self.cache[result].inc()
        self.recent.add(f"cache:{result}")

    def attempt_ended(self, backend: str, result: AttemptResult) -> None:
        """Counts one try at a back end, by its configured name."""
        counter = self._attempts.get((backend, result))
        if counter is None:
            counter = self._attempts[backend, result] = self.attempts.labels(backend, result)
        counter.inc()

    def exposition(self, gauges: Gauges | None) -> bytes:
        """Everything in Prometheus' text form; without the gauges where None (Redis could not be asked).

        Reads the files of all processes where there are several, so it may take some milliseconds.
        """
        if self._multiprocess_dir:
            asked = CollectorRegistry()
            MultiProcessCollector(asked, path=self._multiprocess_dir)  # type: ignore[no-untyped-call]
            text = generate_latest(asked)
        else:
            text = generate_latest(self.registry)
        if gauges is None:
            return text
        stored = CollectorRegistry()
        stored.register(GaugeCollector(gauges))
        return text + generate_latest(stored)

    def _kept(self, observed: Kept) -> Kept:
        if self._multiprocess_dir:
            # Whoever asks another process cannot ask this one.
            observed.at_once()
        else:
            self._observed.append(observed)
        return observed

    def _tell(self) -> None:
        for one in self._observed:
            one.tell()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"doublebuffer_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"doublebuffer_{name}", text, labels, buckets=buckets, registry=self.registry)

    def _noted(self, name: str, by_lane: Mapping[str, Histogram]) -> dict[str, Noted]:
        return {lane: self._kept(Noted(one, self.recent, f"{name}:{lane}")) for lane, one in by_lane.items()}

    def _by_lane(self, name: str, text: str, buckets: tuple[float, ...]) -> dict[str, Histogram]:
        """One child a lane, looked up once."""
        metric = self._histogram(name, text, buckets, "lane")
        return {lane: metric.labels(lane) for lane in LANES}


class _Registry(CollectorRegistry):
    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self._before = before

    def collect(self) -> Iterable[Metric]:
        self._before()
        return super().collect()

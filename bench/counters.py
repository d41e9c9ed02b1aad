"""What gateway and workers count themselves, read before and after a run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

_WAIT = "doublebuffer_queue_wait_seconds_sum"
_BATCHES, _IN_BATCHES = "doublebuffer_batch_size_count", "doublebuffer_batch_size_sum"
_PREEMPTIONS = "vllm:num_preemptions_total"


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums since these processes started. None: nobody told."""

    wait_s: Mapping[str, float] = field(default_factory=dict)
    """Lane, as the gateway chose it → seconds from arrival to the first dispatch, over all requests."""
    batches: float | None = None
    in_batches: float | None = None
    """Jobs in all of them."""
    preemptions: float | None = None
    """Times that the engine threw a running request out."""

    def since(self, before: Counters) -> Counters:
        """What came after ``before``."""

        def grown(now: float | None, then: float | None) -> float | None:
            return None if now is None or then is None else now - then

        return Counters(
            {lane: wait_s - before.wait_s.get(lane, 0.0) for lane, wait_s in self.wait_s.items()},
            grown(self.batches, before.batches),
            grown(self.in_batches, before.in_batches),
            grown(self.preemptions, before.preemptions),
        )


async def read_counters(
    session: aiohttp.ClientSession, *, gateway: str, workers: Sequence[str], engine: str, key: str = ""
) -> Counters:
    """Looks at all of them at once. What does not answer counts as nothing told."""
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_get(session, url, key)) for url in (f"{gateway}/metrics", *workers)]
        of_engine = group.create_task(_get(session, f"{engine}/metrics", key))
    texts = [one.result() for one in asked]
    return parse(texts[0], texts[1:], of_engine.result())


def parse(gateway: str, workers: Sequence[str], engine: str) -> Counters:
    """As ``read_counters``, of the texts themselves. Pure."""
    waits: dict[str, float] = {}
    for labels, value in _samples(gateway, _WAIT):
        waits[labels.get("lane", "")] = waits.get(labels.get("lane", ""), 0.0) + value
    texts = [gateway, *workers]
    return Counters(waits, _total(texts, _BATCHES), _total(texts, _IN_BATCHES), _total([engine], _PREEMPTIONS))


def _total(texts: Sequence[str], name: str) -> float | None:
    values = [value for text in texts for _, value in _samples(text, name)]
    return sum(values) if values else None


def _samples(text: str, name: str) -> list[tuple[Mapping[str, str], float]]:
    try:
        return [
            (sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        ]
    except ValueError:
        return []


async def _get(session: aiohttp.ClientSession, url: str, key: str) -> str:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        async with session.get(url, headers=headers, timeout=aiohttp.ClientTimeout(total=10)) as response:
            return await response.text() if response.status == 200 else ""
    except (aiohttp.ClientError, OSError, TimeoutError):
        return ""

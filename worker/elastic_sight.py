"""What waits for a spare's models, and who else serves them."""

from __future__ import annotations

from collections.abc import Sequence

from buffer.lanes import Lanes
from buffer.load import BackendState
from buffer.names import queue_names
from policy.learned import together
from policy.spares import Queue
from worker.engine import Engine


def queues_of(engine: Engine) -> list[list[str]]:
    """The queues of each of its models that are its own to serve."""
    found = ([queue for queue in queue_names(name) if engine.covers(queue)] for name in engine.spec.models)
    return [queues for queues in found if queues]


async def look_at(lanes: Lanes, names: list[str], others: Sequence[BackendState], *, chats: bool) -> Queue:
    """What waits for one model. Embeddings have no places, so the wait for these is what has been waited."""
    seen = await lanes.peek(names)
    serving = [one for one in others if one.up and not one.breaker_open and one.queues() & set(names)]
    figures = together(told for one in serving for told in one.learned.values())
    job_s = figures.expected_output("normal") / figures.token_rate if chats else 0.0
    return Queue(
        waiting=seen.waiting,
        oldest_s=max(0.0, (seen.now_us - seen.oldest_arr_us) / 1e6) if seen.waiting else 0.0,
        places=sum(max(1, one.limit) for one in serving),
        job_s=job_s,
    )

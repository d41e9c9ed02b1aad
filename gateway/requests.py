"""Requests by their ids: how one stands, and its answer as a stream that can be gone on from any place."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from buffer.job import End, Event, Failure, Origin, Usage
from buffer.retold import Item
from buffer.standing import Standing, read_standing
from gateway.call import NDJSON, Call
from gateway.dialects.errors import failure_of
from gateway.intake import Intake, owner_of
from gateway.merged import total
from gateway.pools import Pool
from gateway.refusal import Refusal
from gateway.told import Told, read_told

UNKNOWN = Failure(
    "No request of yours has this id. Answers are kept for a minute after their end, those of detached requests and of"
    " requests with an Idempotency-Key for ten.",
    404,
    "request_not_found",
)
_PLACE = re.compile(r"(\d{1,17}-\d{1,9}(?:,\d{1,17}-\d{1,9}){0,255})(?:\.(\d{1,9}))?")
_BAD_PLACE = Failure("Last-Event-ID is the id of an event of this stream.", 400, "")
START = "0-0"
LOOK_AGAIN_S = 0.1


async def find(pools: Sequence[Pool], id: str, call: Call) -> tuple[Standing, Pool]:
    """Raises ``Refusal`` (404) for an id that is unknown or somebody else's, and ``StoreUnavailable``.

    A store that was emptied a moment ago is given the time to get back what gateways still know of.
    """
    known = re.fullmatch("[0-9a-f]{32}", id) is not None
    while known:
        for pool in pools:
            standing = await read_standing(pool.lanes, id)
            if standing is not None:
                if standing.owner != owner_of(call):
                    raise Refusal(UNKNOWN)
                return standing, pool
        known = await _may_come_back(pools)
        if known:
            await asyncio.sleep(LOOK_AGAIN_S)
    raise Refusal(UNKNOWN)


async def _may_come_back(pools: Sequence[Pool]) -> bool:
    for pool in pools:
        if await pool.inbox.may_lack():
            return True
    return False


def told_of(standing: Standing, intake: Intake) -> dict[str, Any]:
    """How a request stands, as its client is told. Instants are in seconds since 1970."""
    waits = standing.state == "waiting"
    told = read_told(standing.told)
    failure = failure_of(standing.end) if standing.end is not None else None
    starts_in_s = intake.starts_in_s(standing.model, standing.ahead) if waits else None
    # The store hears of the first one a moment later, with others.
    firsts = [standing.first_us, *(at_us for at_us, _ in standing.paced.tokens[:1])]
    return {
        "id": standing.id,
        "object": "request",
        "state": standing.state,
        "lane": standing.lane,
        "model": told.chat.model if told is not None else standing.model,
        "detached": standing.det,
        "queue_place": standing.ahead + 1 if waits else None,
        "estimated_start": round(time.time() + starts_in_s, 3) if starts_in_s is not None else None,
        "backend": standing.backend or None,
        "attempts": standing.tries,
        "failed_attempts": standing.fails,
        "takeovers": standing.taken,
        "timeline": {
            "arrival": _seconds(standing.arrived_us),
            "started": _seconds(standing.started_us),
            "pieces": _points(standing.paced.pieces),
            "first_token": _seconds(min((at_us for at_us in firsts if at_us), default=0)),
            "tokens": _points(standing.paced.tokens),
            "ended": _seconds(standing.ended_us),
        },
        "error": failure.message if failure is not None else None,
    }


def _points(points: Iterable[tuple[int, int]]) -> list[tuple[float, int]]:
    return [(at_us / 1e6, tokens) for at_us, tokens in points]


def _seconds(instant_us: int) -> float | None:
    return instant_us / 1e6 if instant_us else None


def read_place(last_event_id: str, count: int) -> tuple[list[str], int]:
    """Where a reader of ``count`` jobs' answers is: the id of the last piece of each that it has, empty for none, and
    how many events of what comes then. Raises ``Refusal``.
    """
    if not last_event_id.strip():
        return [""] * count, 0
    found = _PLACE.fullmatch(last_event_id.strip())
    places = found[1].split(",") if found else []
    if found is None or len(places) != count:
        raise Refusal(_BAD_PLACE)
    return ["" if place == START else place for place in places], int(found[2] or 0)


class Retelling:
    """An answer as server-sent events with ids, in the dialect that it was asked for in; of Ollama's, each line is the
    data of one.

    An id tells the place behind its event: ``<fence>-<n>``, one for each job with commas between. Where a single piece
    of the answer is told in several events, all but the last are counted: ``<fence>-<n>.<k>`` is ``k`` events behind
    that place.
    """

    def __init__(self, told: Told, id: str, places: Sequence[str], skipped: int) -> None:
        """``places``, ``skipped``: where the reader is, as ``read_place`` gives it."""
        form = told.form
        self._writer = form.stream(told.streamed(), id, told.created, False)
        self._lines = form.stream_type == NDJSON
        self._each = told.chat.n
        self._places = [place or START for place in places]
        self._skip = skipped
        self.astray = False
        """There are not so many events behind the reader's place: nobody was ever told that it is there."""
        self._inside = 0
        self._usages: list[Usage | None] = [None] * len(places)
        self._named = False

    def had(self, job: int, items: Iterable[Item]) -> None:
        """Pieces of a job's answer that the reader has."""
        for item in items:
            self._feed(job, item.event)

    def feed(self, job: int, item: Item) -> bytes:
        """One that it has not."""
        return self._numbered(self._feed(job, item.event), {job: item.id} if item.id else {})

    def _feed(self, job: int, event: Event) -> bytes:
        if len(self._places) > 1:
            if isinstance(event, Usage):
                self._usages[job] = event
                return b""
            if isinstance(event, Origin):
                if self._named:
                    return b""
                self._named = True
            else:
                event.index += job * self._each
        return self._writer.feed([event], time.time())

    def end(self, end: End, ids: Sequence[str], *, queued_s: float) -> bytes:
        """``ids``: of the ends of all jobs; empty where the answer has none."""
        now = time.time()
        data = self._writer.feed(total(self._usages), now) if any(self._usages) and end.kind == "done" else b""
        data += self._writer.end(end, now, queued_s=queued_s)
        places = dict(enumerate(ids)) if all(ids) else {}
        return self._numbered(data, places) if places else b"".join(self._blocks(data))

    def _numbered(self, data: bytes, places: Mapping[int, str]) -> bytes:
        out: list[bytes] = []
        blocks = self._blocks(data)
        for left in range(len(blocks) - 1, -1, -1):
            self._inside += 1
            if not left:
                self._move(places)
            if self._skip and not self.astray:
                self._skip -= 1
                continue
            place = ",".join(self._places) + (f".{self._inside}" if self._inside else "")
            out += (b"id: ", place.encode(), b"\n", blocks[-1 - left])
        if not blocks:
            self._move(places)
        return b"".join(out)

    def _move(self, places: Mapping[int, str]) -> None:
        if places:
            self._inside = 0
            # Whoever has the event that moves it has been told of the place that it leads to.
            self.astray = self.astray or self._skip > 0
            for job, place in places.items():
                self._places[job] = place

    def _blocks(self, data: bytes) -> list[bytes]:
        if self._lines:
            return [b"data: " + line + b"\n\n" for line in data.splitlines()]
        return [block + b"\n\n" for block in data.split(b"\n\n")[:-1]]

"""pull: how long small prompts hold back the pieces of long ones."""

from __future__ import annotations

from buffer.lanes import Lanes
from buffer.records import Granted
from tests.buffer.guards.documents import PIECES, document, is_read, went
from tests.buffer.guards.mutants import guard
from tests.buffer.jobs import job, pull, ready


async def whole(lanes: Lanes, id: str, tokens: int) -> Granted:
    """A prompt that goes as it is."""
    await lanes.submit(job(id, lane="thinking", prefill=tokens, user=id))
    (granted,) = (await pull(lanes, limits=PIECES)).jobs
    return granted


async def pause_us(lanes: Lanes) -> int:
    """For which a document has to wait now."""
    await document(lanes, "document")
    pulled = await pull(lanes, limits=PIECES)
    assert went(pulled) == []
    return pulled.look_in_us


@guard("_grant", "math.min(1, tokens / ", "(1 or tokens / ")
async def test_less_than_a_piece_is_worth_its_part_of_the_pause(lanes: Lanes) -> None:
    await ready(lanes)
    await whole(lanes, "small", 25)
    assert await pause_us(lanes) == 25_000


@guard("_grant", "math.min(1, tokens / ", "(tokens / ")
async def test_more_than_a_piece_is_worth_no_more_than_the_pause(lanes: Lanes) -> None:
    await ready(lanes)
    await whole(lanes, "large", 800)
    assert await pause_us(lanes) == 100_000


@guard("_grant", "math.max(next_at, now + pause * part)", "now + pause * part")
async def test_a_small_one_does_not_end_the_pause_of_a_large_one(lanes: Lanes) -> None:
    await ready(lanes)
    await is_read(lanes, await whole(lanes, "large", 800), 0)
    await whole(lanes, "small", 25)
    assert await pause_us(lanes) == 100_000

"""keep, purge: room for kept answers, their lifetimes, and which are forgotten."""

from __future__ import annotations

from buffer.cache import EVERY, Shelf
from buffer.keys import answers
from buffer.lanes import Lanes
from tests.buffer.guards.mutants import guard
from tests.buffer.guards.shelves import DATA, ONE, OTHER, SIZE, TWO, keep, kept, shelf_of

NOT_KEPT = "if data == '' or size > most or purged(model) >= now - tonumber(ARGV[7]) then"
MAKE_ROOM = "while tonumber(call('GET', P .. 'held') or '0') + size > most do"
LIFETIME = "math.max(math.ceil(ttl / 1000000) + 60, call('TTL', P .. 'held'))"
ANY_OR_ITS = "math.max(tonumber(v[1] or '0'), tonumber(v[2] or '0'))"
FORGETS = "if model == '*' or string.match(about[i + 1], '^%d+ (.*)$') == model then"


async def _life_s(shelf: Shelf) -> list[int]:
    """Of what is known of all that are kept."""
    redis, base = shelf.store.redis, answers(shelf.store.prefix)
    return [int(await redis.ttl(base + name)) for name in ("answers", "about", "held")]


@guard("keep", "data == '' or ", "", where=NOT_KEPT)
async def test_no_answer_is_kept_of_a_job_that_failed(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await shelf.land(ONE, b"", age_us=0, job="a", lanes=lanes, failed=True)
    assert await shelf.size() == (0, 0)


@guard("keep", "size > most or ", "", where=NOT_KEPT)
async def test_what_is_larger_than_all_the_room_takes_nobody_elses(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes, most=2 * SIZE)
    await keep(shelf, TWO)
    await shelf.keep(ONE, DATA * 1000, age_us=0)
    assert await kept(shelf, TWO) == [True]


@guard("keep", "size > most", "size >= most", where=NOT_KEPT)
@guard("keep", "size > most", "size >= most", where=MAKE_ROOM)
async def test_all_the_room_is_used(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes, most=SIZE)
    await keep(shelf, ONE)
    assert await kept(shelf, ONE) == [True]
    wider, _ = shelf_of(lanes, most=2 * SIZE)
    await keep(wider, TWO)
    assert await kept(wider, ONE, TWO) == [True, True]


@guard("keep", " or purged(model) >= now - tonumber(ARGV[7])", "", where=NOT_KEPT)
@guard("keep", ">= now", "> now", where=NOT_KEPT)
@guard("keep", "now - tonumber(ARGV[7])", "now", where=NOT_KEPT)
async def test_what_was_asked_before_a_purge_is_notkept(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes)
    await shelf.purge("m")
    clock.forward(1)
    for age_us in (2_000_000, 1_000_000):
        await keep(shelf, ONE, age_us=age_us)
        assert await kept(shelf, ONE) == [False]
    await keep(shelf, ONE, age_us=999_999)
    assert await kept(shelf, ONE) == [True]


@guard("keep", "ipairs(call('ZRANGEBYSCORE', P .. 'answers', '-inf', int(now), 'LIMIT', 0, 128))", "ipairs({})")
@guard("_shelf", "if about then", "if false then")
async def test_what_has_lived_takes_no_room(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes)
    await keep(shelf, ONE)
    clock.forward(300)
    await keep(shelf, TWO)
    assert await shelf.size() == (1, SIZE)


@guard("keep", "drop(digest)", "")
async def test_an_answer_takes_the_place_of_the_one_before(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await keep(shelf, ONE, ONE)
    assert await shelf.size() == (1, SIZE)


@guard("_shelf", "if about then", "if true then")
@guard("keep", MAKE_ROOM, "while false do")
async def test_the_oldest_make_room(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes, most=2 * SIZE)
    for question in (TWO, ONE, OTHER):
        await keep(shelf, question)
        clock.forward(1)
    assert await kept(shelf, TWO, ONE, OTHER) == [False, True, True]
    assert await shelf.size() == (2, 2 * SIZE)


@guard("keep", "if not oldest then", "if false then")
@guard("keep", "    call('DEL', P .. 'held')\n", "")
async def test_a_server_that_dropped_the_list_of_what_is_kept_loses_no_room(lanes: Lanes) -> None:
    """As one does whose memory is full, if it may."""
    shelf, _ = shelf_of(lanes, most=SIZE)
    await keep(shelf, ONE)
    await lanes.store.redis.delete(answers(lanes.store.prefix) + "answers", answers(lanes.store.prefix) + "about")
    await keep(shelf, TWO)
    assert await shelf.size() == (1, SIZE)


@guard("keep", "math.max(1, ttl / 1000)", "ttl / 1000")
async def test_an_answer_may_be_kept_for_less_than_a_millisecond(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes, ttl_s=1e-4)
    await keep(shelf, ONE)
    assert (await shelf.size())[0] == 1


@guard("keep", LIFETIME, "math.ceil(ttl / 1000000) + 60")
@guard("keep", LIFETIME, "call('TTL', P .. 'held')")
async def test_what_is_known_of_answers_lives_as_long_as_the_longest(lanes: Lanes) -> None:
    longer, _ = shelf_of(lanes, ttl_s=3000)
    shorter, _ = shelf_of(lanes, ttl_s=3)
    await keep(shorter, ONE)
    assert all(55 < left <= 63 for left in await _life_s(shorter))
    for shelf in (longer, shorter):
        await keep(shelf, TWO)
        assert all(3000 < left <= 3060 for left in await _life_s(shelf))


@guard("_shelf", ANY_OR_ITS, "tonumber(v[1] or '0')")
@guard("_shelf", ANY_OR_ITS, "tonumber(v[2] or '0')")
async def test_a_purge_of_a_model_is_one_and_so_is_that_of_all(lanes: Lanes) -> None:
    shelf, clock = shelf_of(lanes)
    for first, then in ((EVERY, "m"), ("m", EVERY)):
        await shelf.purge(first)
        clock.forward(1)
        await shelf.purge(then)
        clock.forward(1)
        await keep(shelf, ONE, age_us=1_500_000)
        assert await kept(shelf, ONE) == [False]


@guard("purge", FORGETS, "if true then")
@guard("purge", " or string.match(about[i + 1], '^%d+ (.*)$') == model", "")
async def test_a_models_answers_are_forgotten(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await keep(shelf, ONE, TWO, OTHER)
    assert await shelf.purge(OTHER.model) == 1
    assert await kept(shelf, ONE, TWO, OTHER) == [True, True, False]


@guard("purge", "model == '*' or ", "")
async def test_those_of_all_models_are(lanes: Lanes) -> None:
    shelf, _ = shelf_of(lanes)
    await keep(shelf, ONE, TWO, OTHER)
    assert await shelf.purge(EVERY) == 3
    assert await shelf.size() == (0, 0)

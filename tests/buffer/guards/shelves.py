"""Kept answers: what their tests begin with."""

from __future__ import annotations

from typing import NamedTuple

from buffer.cache import Shelf
from buffer.cached import Cached, encode_cached
from buffer.job import Content, Finish
from buffer.lanes import Lanes
from tests.buffer.jobs import Clock


class Question(NamedTuple):
    digest: str
    model: str = "m"


ONE, TWO, OTHER = Question("one"), Question("two"), Question("three", "another model")
YES = Cached("fast", [Content("yes"), Finish("stop")])
DATA = encode_cached(YES)
SIZE = len(DATA) + 512


def shelf_of(lanes: Lanes, ttl_s: float = 300.0, most: int = 1_000_000) -> tuple[Shelf, Clock]:
    clock = Clock()
    return Shelf(lanes.store, ttl_s, most, clock), clock


async def keep(shelf: Shelf, *questions: Question, age_us: int = 0) -> None:
    for question in questions:
        await shelf.keep(question, DATA, age_us=age_us)


async def kept(shelf: Shelf, *questions: Question) -> list[bool]:
    return [await shelf.ask(question, None, reads=True) == YES for question in questions]

"""A look at an engine that goes wrong in a way that nobody thought of."""

from __future__ import annotations

from typing import Any, cast

from worker.health import DEFECT, Health


class Stub:
    """A back end, its engine and its pool in one."""

    name, up, error = "b", True, ""

    def __init__(self) -> None:
        self.backend = self
        self.gone: list[Any] = []

    async def probe(self) -> None:
        raise RecursionError

    def lost(self, error: str) -> bool:
        news, self.error = self.error != error, error
        return news

    def out_of_service(self, engine: Any) -> None:
        self.gone.append(engine)


async def test_a_defect_in_a_look_costs_that_back_end_and_not_the_worker() -> None:
    stub = Stub()
    health = Health(cast(Any, stub), cast(Any, stub))
    for _ in range(2):
        await health._look()
    assert (stub.error, stub.gone) == (DEFECT, [stub])

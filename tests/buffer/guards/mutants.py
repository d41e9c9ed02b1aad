"""The table of guards: which text to take out of which script, and the test that must fail then."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from buffer.lanes import Lanes
from tests.buffer.guards.changing import text_of

Test = Callable[[Lanes], Awaitable[None]]


class NotThere(Exception):  # noqa: N818  (what it says)
    """What is to be taken out does not stand in the script, or more than once."""


@dataclass(frozen=True)
class Mutant:
    file: str
    """Of ``scripts/<file>.lua``."""
    old: str
    new: str
    test: Test
    where: str
    """What ``old`` stands in, if it stands in the file more than once."""
    servers_only: bool
    """The embedded store cannot show it."""

    @property
    def name(self) -> str:
        return f"{self.file}: {_short(self.old)} → {_short(self.new) or 'nothing'}"

    def text(self) -> str:
        """The file without the guard. Raises ``NotThere``."""
        text, where = text_of(self.file), self.where or self.old
        for part, whole in ((where, text), (self.old, where)):
            if whole.count(part) != 1:
                raise NotThere(f"{self.file}.lua has {whole.count(part)} times, not once: {part!r}")
        return text.replace(where, where.replace(self.old, self.new))


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 60 else line[:59] + "…"


_mutants: list[Mutant] = []


def guard(file: str, old: str, new: str, *, where: str = "", servers_only: bool = False) -> Callable[[Test], Test]:
    """Decorates the test that must fail once ``old``, which stands exactly once in ``scripts/<file>.lua``, or in
    ``where`` in it, is ``new``.
    """

    def note(test: Test) -> Test:
        _mutants.append(Mutant(file, old, new, test, where, servers_only))
        return test

    return note


def mutants() -> list[Mutant]:
    """The whole table."""
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("test_"):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return sorted(set(_mutants), key=lambda one: (one.file, one.test.__name__, one.old))

"""What ``doublebuffer dead`` does with the dead letters that it finds, and what a person reads of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from buffer.letters import Letter, Letters, letter_pools
from buffer.store import Store
from doublebuffer.top_paper import plain

DONE, NOT_DONE = 0, 1
EVERY = "ALL"
_COLUMNS: dict[str, Callable[[Letter], str]] = {
    "AT": lambda letter: _local(letter.at_us),
    "ID": lambda letter: letter.id,
    "POOL": lambda letter: letter.pool,
    "MODEL": lambda letter: letter.model,
    "LANE": lambda letter: letter.lane,
    "USER": lambda letter: letter.user,
    "REASON": lambda letter: letter.reason,
}


@dataclass(frozen=True, slots=True)
class Book:
    """All dead letters of a store. ``pools``: those that are configured."""

    store: Store
    pools: Iterable[str]

    def of(self, pool: str) -> Letters:
        return Letters(self.store, pool)

    async def all(self) -> list[Letter]:
        """The oldest first."""
        pools = await letter_pools(self.store, self.pools)
        letters = [letter for pool in pools for letter in await self.of(pool).all()]
        return sorted(letters, key=lambda letter: letter.at_us)


async def show_all(book: Book, *, as_json: bool) -> int:
    letters = await book.all()
    if as_json:
        print(json.dumps([_told(letter) for letter in letters], indent=2))
    elif letters:
        rows = [tuple(_COLUMNS), *(tuple(value(letter) for value in _COLUMNS.values()) for letter in letters)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
        for row in rows:
            print("  ".join(f"{plain(cell):<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    else:
        print("No dead letters.")
    return DONE


async def show(book: Book, id: str) -> int:
    letters = _meant(await book.all(), id)
    if letters is None:
        return NOT_DONE
    for letter in letters:
        told = {**_told(letter), "retry": await _can_retry(book, letter)}
        width = max(map(len, told))
        print("\n".join(f"{name:<{width}}  {plain(str(value))}" for name, value in told.items()))
    return DONE


async def _can_retry(book: Book, letter: Letter) -> str:
    if await book.of(letter.pool).has_body(letter.id):
        return f"can be tried again: doublebuffer dead retry {letter.id}"
    return "cannot be tried again: the request itself is not kept"


async def retry(book: Book, id: str) -> int:
    """Only what is still there can be tried again; anything else is said to be gone, and its dead letter stays."""
    letters = _meant(await book.all(), id)
    if letters is None:
        return NOT_DONE
    letter = letters[-1]
    pool = book.of(letter.pool)
    match await pool.retry(letter.id):
        case "queued":
            await pool.drop(letters)
            print(f"{letter.id} is back in its queue.")
            return DONE
        case "open":
            return _refuse(f"{letter.id} waits or runs already, so there is nothing to try again.")
        case _:
            return _refuse(
                f"{letter.id} cannot be tried again: a dead letter keeps its reason, not its text, and the "
                "request itself is gone; whoever sent it has been told, and has to send it again."
            )


async def drop(book: Book, id: str) -> int:
    letters = await book.all()
    meant = letters if id == EVERY else _meant(letters, id)
    if meant is None:
        return NOT_DONE
    count = 0
    for pool in sorted({letter.pool for letter in meant}):
        count += await book.of(pool).drop([letter for letter in meant if letter.pool == pool])
    print(f"{count} dead {'letter' if count == 1 else 'letters'} dropped.")
    return DONE


def _meant(letters: Sequence[Letter], id: str) -> list[Letter] | None:
    """Those of one job; a job may have died more than once. None, and a sentence, if it is not clear whose."""
    found = [letter for letter in letters if letter.id == id] or [one for one in letters if one.id.startswith(id)]
    ids = {letter.id for letter in found}
    if not found or not id:
        _refuse(f"There is no dead letter {id!r}; `doublebuffer dead list` shows those that there are.")
        return None
    if len(ids) > 1:
        _refuse(f"{len(ids)} dead letters begin with {id!r}; give more of the id.")
        return None
    return found


def _told(letter: Letter) -> dict[str, Any]:
    at = datetime.fromtimestamp(letter.at_us / 1e6, UTC).isoformat(timespec="milliseconds")
    return {
        "id": letter.id,
        "at": at.replace("+00:00", "Z"),
        "pool": letter.pool,
        "model": letter.model,
        "lane": letter.lane,
        "user": letter.user,
        "reason": letter.reason,
    }


def _local(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _refuse(sentence: str) -> int:
    print(f"doublebuffer: {sentence}", file=sys.stderr)
    return NOT_DONE

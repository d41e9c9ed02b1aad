"""``doublebuffer cache``: how many answers are kept, and forgetting them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from doublebuffer.flags import add_setting_flags

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_ABOUT = "Answers that are kept for whoever asks the same. Each goes by itself at the end of its lifetime."
_ACTIONS = {
    "show": "how many are kept, and what they take",
    "purge": "forgets those of a model, or all of them",
}


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "answers that are kept: show, purge"
    parser = commands.add_parser("cache", help=text, description=_ABOUT, allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|purge")
    for name, told in _ACTIONS.items():
        action = actions.add_parser(name, help=told, description=f"{told[0].upper()}{told[1:]}.", allow_abbrev=False)
        if name == "purge":
            action.add_argument("--model", metavar="NAME", default="", help="the model, in any spelling; unset: all")
        add_setting_flags(action)


async def run_cache(arguments: argparse.Namespace, settings: Settings) -> int:
    """Raises ``SettingsError``."""
    from buffer.cache import EVERY, Shelf
    from doublebuffer.starting import store_of
    from gateway.question import purge_name

    if settings.redis_url is None:
        raise SettingsError(
            "REDIS_URL is unset: without a Redis, answers are kept in the memory of the process that gave them, and go "
            "with it; DELETE /v1/cache has it forget them."
        )
    async with store_of(settings) as store:
        shelf = Shelf(store)
        if arguments.action == "purge":
            count = await shelf.purge(purge_name(arguments.model) if arguments.model else EVERY)
            print(f"{count} kept {_answers(count)} forgotten.")
        else:
            count, held = await shelf.size()
            print(f"{count} kept {_answers(count)}, {held:,} of {settings.cache_max_bytes:,} bytes.")
    return 0


def _answers(count: int) -> str:
    return "answer" if count == 1 else "answers"

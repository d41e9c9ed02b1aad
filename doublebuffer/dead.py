"""``doublebuffer dead``: jobs that were given up. Lists them, shows one, tries one again, drops them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from buffer.setting_sources import SettingsError
from buffer.settings import Settings
from doublebuffer.flags import add_setting_flags

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_ABOUT = (
    "Jobs that were given up: their attempts were used up, their workers died three times, or they could not be read. "
    "A dead letter keeps the reason, never the text of a chat."
)
_ACTIONS = {
    "list": "all dead letters of all pools, the oldest first",
    "show": "all that is known of one",
    "retry": "puts one back into its queue; only where the request itself is still there",
    "drop": "forgets one, or with ALL every one",
}
_ID = "the job's id (X-Doublebuffer-Id), or as much of its beginning as no other has"


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "jobs that were given up: list, show ID, retry ID, drop ID"
    parser = commands.add_parser("dead", help=text, description=_ABOUT, allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|retry|drop")
    for name, told in _ACTIONS.items():
        action = actions.add_parser(name, help=told, description=f"{told[0].upper()}{told[1:]}.", allow_abbrev=False)
        if name == "list":
            action.add_argument("--json", action="store_true", help="as one JSON list")
        else:
            action.add_argument("id", metavar="ID", help=f"{_ID}; or ALL" if name == "drop" else _ID)
        add_setting_flags(action)


async def run_dead(arguments: argparse.Namespace, settings: Settings) -> int:
    """0, or 1 where there is no such dead letter or it cannot be tried again. Raises ``SettingsError``."""
    from doublebuffer.dead_letters import Book, drop, retry, show, show_all
    from doublebuffer.starting import store_of

    if settings.redis_url is None:
        raise SettingsError(
            "REDIS_URL is unset: without a Redis, dead letters are gone with the process that had them, and only "
            "those in a Redis can be looked at."
        )
    async with store_of(settings) as store:
        book = Book(store, {"default", *(spec.pool for spec in settings.backends)})
        match arguments.action:
            case "list":
                return await show_all(book, as_json=arguments.json)
            case "show":
                return await show(book, arguments.id)
            case "retry":
                return await retry(book, arguments.id)
            case _:
                return await drop(book, arguments.id)

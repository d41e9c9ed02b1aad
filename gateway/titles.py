"""Titles of chats wait for the chats: Open WebUI asks for the one a moment before it sends the other."""

from __future__ import annotations

import asyncio


class Titles:
    """Which chats are open, by user, and titles that wait for them. ``least_s``: for their chat to come in at all;
    ``most_s``: to be answered."""

    def __init__(self, least_s: float, most_s: float) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._open: dict[str, set[Chat]] = {}

    def chat(self, user: str) -> Chat:
        """A chat of ``user``, ``with`` which it lasts from its arrival to its end."""
        return Chat(self._open, user)

    async def wait(self, user: str) -> None:
        """Until the chats are answered that ``user`` will have open in ``least_s`` seconds.

        Later ones don't count, or the title of a busy user, or of an Open WebUI that names none, would never come.
        """
        await asyncio.sleep(self._least_s)
        if chats := self._open.get(user):
            answered = {chat.answered() for chat in chats}
            await asyncio.wait(answered, timeout=max(0.0, self._most_s - self._least_s))


class Chat:
    """One that is open."""

    __slots__ = ("_answered", "_open", "_user")

    def __init__(self, open: dict[str, set[Chat]], user: str) -> None:
        self._open = open
        self._user = user
        self._answered: asyncio.Future[None] | None = None

    def answered(self) -> asyncio.Future[None]:
        """Done at its end. Hardly ever does a title wait for a chat, so there is none before one does."""
        if self._answered is None:
            self._answered = asyncio.get_running_loop().create_future()
        return self._answered

    def __enter__(self) -> None:
        chats = self._open.get(self._user)
        if chats is None:
            chats = self._open[self._user] = set()
        chats.add(self)

    def __exit__(self, *_: object) -> None:
        if self._answered is not None:
            self._answered.set_result(None)
        chats = self._open[self._user]
        chats.discard(self)
        if not chats:
            del self._open[self._user]

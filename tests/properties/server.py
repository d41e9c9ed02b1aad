"""The store itself, asked and answered at once: nothing else of the installation moves meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import redis
from redis.exceptions import NoScriptError, ResponseError

from buffer.access import Command
from buffer.scripting import by_sha


class Server:
    """``url``: of a Redis; None: an embedded one of its own."""

    def __init__(self, url: str | None, prefix: str) -> None:
        self.prefix = prefix
        self._embedded = url is None
        self._compiled: set[str] = set()
        self._link: Any = None
        if url is None:
            from fakeredis import FakeRedis, FakeServer

            self._client: Any = FakeRedis(server=FakeServer(), protocol=2)
        else:
            self._client = redis.Redis.from_url(url, protocol=2)

    def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Results in the same order; the error of a command in its place."""
        if self._embedded:
            return self._ask_embedded(commands)
        results = self._send(commands)
        for place, (command, result) in enumerate(zip(commands, results, strict=True)):
            if isinstance(result, NoScriptError):
                self._client.script_load(by_sha()[command[1]].source)
                (results[place],) = self._send([command])
        return results

    def _send(self, commands: Sequence[Command]) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        results: list[Any] = pipe.execute(raise_on_error=False)
        return results

    def _ask_embedded(self, commands: Sequence[Command]) -> list[Any]:
        """Without the client around it, which costs more than most commands."""
        if self._link is None:
            self._link = self._client.connection_pool.get_connection()
        commands = [self._short(command) if command[0] == "EVALSHA" else command for command in commands]
        self._link.send_packed_command(self._link.pack_commands(commands), check_health=False)
        results: list[Any] = []
        for command in commands:
            try:
                result = self._link.read_response()
            except ResponseError as error:
                results.append(error)
                continue
            read = self._client.response_callbacks.get(command[0])
            results.append(read(result) if read is not None and result is not None else result)
        return results

    def _short(self, command: Command) -> Command:
        """As the product's own embedded store: fakeredis would compile a script at each call."""
        part = by_sha()[command[1]]
        if part.name not in self._compiled:
            self._link.send_command("EVAL", f"redis.db_{part.name} = function()\n{part.source}\nend", 0)
            self._link.read_response()
            self._compiled.add(part.name)
        return ("EVAL", f"return redis.db_{part.name}()", *command[2:])

    def subscribe(self, channel: str) -> Callable[[], None]:
        """On a connection of its own. Returns what ends that: by then the server has heard of it."""
        link = self._client.connection_pool.get_connection()
        link.send_command("SUBSCRIBE", channel)
        link.read_response()

        def end() -> None:
            link.send_command("UNSUBSCRIBE")
            link.read_response()
            self._client.connection_pool.release(link)

        return end

    def empty(self) -> None:
        """It has nothing, and knows no script."""
        self.ask([("FLUSHALL",), ("SCRIPT", "FLUSH")])
        self._compiled.clear()

    def names(self) -> list[str]:
        return sorted(name.decode() for name in self.ask([("KEYS", f"{self.prefix}:*")])[0])

    def close(self) -> None:
        if self._link is not None:
            self._client.connection_pool.release(self._link)
        self._client.close()

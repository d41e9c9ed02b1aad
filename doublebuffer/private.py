"""A Redis of ``doublebuffer up``'s own, where one is installed: the embedded store costs ten times as much a chat.

It listens on a socket file in a folder that only this user may enter, keeps nothing on a disk, and ends with the
command. Without one, or with one that is too old, the queue is in this process's memory.
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

log = logging.getLogger("doublebuffer.command")

PROGRAMS = ("redis-server", "valkey-server")
OLDEST = (6, 2)
MARK = "doublebuffer-redis-"
"""Its folder's name begins so."""
START_S = 5.0
END_S = 3.0
LOOK_AGAIN_S = 0.02
AGAIN_S = 1.0
"""How long after it died it is started again: empty, which gateway and worker make up for."""
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)")


@asynccontextmanager
async def private_redis(programs: Sequence[str] = PROGRAMS) -> AsyncIterator[str | None]:
    """Its URL; None: there is none."""
    program = await _program(programs)
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix=MARK) as folder:
        socket = Path(folder) / "socket"
        try:
            process = await _start(program, socket)
        except OSError as error:
            log.warning("%s does not start, so the queue is in this process's memory: %s", program, error)
            yield None
            return
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(_keep(process, program, socket))
            try:
                yield f"unix://{socket}"
            finally:
                keeping.cancel()


async def _program(programs: Sequence[str]) -> str | None:
    for name in programs:
        found = shutil.which(name)
        if found is None:
            continue
        asked = await asyncio.create_subprocess_exec(
            found, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        told, _ = await asked.communicate()
        version = _VERSION.search(told.decode(errors="replace"))
        if version and (int(version[1]), int(version[2])) >= OLDEST:
            return found
    return None


async def _start(program: str, socket: Path) -> asyncio.subprocess.Process:
    """Raises ``OSError`` if it does not listen in time."""
    options = {
        "--port": "0",
        "--unixsocket": str(socket),
        "--unixsocketperm": "700",
        "--dir": str(socket.parent),
        "--save": "",
        "--appendonly": "no",
        "--daemonize": "no",
        "--loglevel": "warning",
    }
    # Where this command is killed, nobody else would end it.
    bound = [setpriv, "--pdeathsig", "TERM"] if (setpriv := shutil.which("setpriv")) else []
    process = await asyncio.create_subprocess_exec(
        *bound,
        program,
        *(part for pair in options.items() for part in pair),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(START_S):
            while not await _listens(socket):
                if process.returncode is not None:
                    raise OSError(f"It ended with {process.returncode}.")
                await asyncio.sleep(LOOK_AGAIN_S)
    except TimeoutError:
        await _end(process)
        raise OSError(f"It has not begun to listen within {START_S:g} s.") from None
    return process


async def _listens(socket: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    writer.close()
    return True


async def _keep(process: asyncio.subprocess.Process, program: str, socket: Path) -> None:
    """Until cancelled."""
    try:
        while True:
            await process.wait()
            log.error("the Redis of our own ended with %s; another is started", process.returncode)
            await asyncio.sleep(AGAIN_S)
            try:
                process = await _start(program, socket)
            except OSError as error:
                log.error("%s does not start: %s", program, error)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()

"""Stands between a worker and the engine that it has started: ends the engine when the worker ends, however that does.

``python -I -S elastic_keeper.py SECONDS PROGRAM ARGUMENT...``, with a pipe as its standard input of which the worker
alone holds the other end. Once that is closed, by the worker or by the worker's death, the engine's process group gets
SIGTERM, and what is left of it after so many seconds SIGKILL. It ends as the engine does: with the same code, or by the
same signal.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time

CANNOT_RUN = 126
LOOK_S = 0.05


def keep(command: list[str], end_s: float) -> int:
    """Runs ``command`` in a process group of its own; the code that it ended with, below 0: the signal."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    # Handled and not ignored: what is ignored would be ignored by the engine as well.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(f"{command[0]!r} cannot be run: {error.strerror or error}.", flush=True)
        return CANNOT_RUN
    until: float | None = None
    killed = False
    while (code := engine.poll()) is None or (until is not None and not killed and _tell(engine.pid, 0)):
        if until is not None and not killed and time.monotonic() >= until:
            killed = _tell(engine.pid, signal.SIGKILL)
            continue
        heard, left_s = ([woken, sys.stdin], None) if until is None else ([woken], LOOK_S)
        ready, _, _ = select.select(heard, [], [], left_s)
        told = sys.stdin in ready
        if woken in ready:
            told = bool(set(os.read(woken, 4096)) - {signal.SIGCHLD}) or told
        if told and until is None:
            until = time.monotonic() + end_s
            _tell(engine.pid, signal.SIGTERM)
    if until is None:
        # What it started and left behind as it ended of itself: nobody would stop that, and it may hold the card.
        _tell(engine.pid, signal.SIGKILL)
    return code


def _tell(group: int, number: int) -> bool:
    """Whether there was anybody. As long as there is, the number cannot become another group's."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def main() -> int:
    code = keep(sys.argv[2:], float(sys.argv[1]))
    if code >= 0:
        return code
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # nobody may handle SIGKILL
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main())

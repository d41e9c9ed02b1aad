"""Log lines on standard error: as text, or one JSON object a line. What a person wrote or a model said is in none."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from functools import lru_cache

from buffer.settings import Settings
from doublebuffer.top_paper import plain

_CHATTY = ("httpx", "httpcore", "asyncio", "uvicorn")
_encode = json.JSONEncoder(ensure_ascii=False).encode


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encode(line)


class TextLine(logging.Formatter):
    """One line for each message: what an engine said may be in it, and a terminal obeys more than it shows."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name there
        record.message = plain(record.message)
        return super().formatMessage(record)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return f"{_second(int(record.created))},{int(record.msecs):03}"


@lru_cache(maxsize=2)
def _second(at: int) -> str:
    """As logging tells it; many lines are of the same one."""
    return time.strftime(logging.Formatter.default_time_format, time.localtime(at))


def set_up_logs(settings: Settings) -> None:
    """Sets the process's logging; called once, by the command."""
    # What no line of ours tells, and would be found out for each: thread, process, and the place in the code.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the "Optimization" of Python's logging HOWTO has it
    sink = logging.StreamHandler()
    if settings.log_format == "json":
        sink.setFormatter(_JsonLine())
    else:
        sink.setFormatter(TextLine("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[sink], force=True)
    quiet = max(logging.WARNING, logging.getLogger().level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(quiet)

"""Log lines on standard error: as text, or one JSON object a line. What a person wrote or a model said is in none."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TextIO

from buffer.settings import Settings
from doublebuffer.top_paper import plain

if TYPE_CHECKING:
    _Stream = logging.StreamHandler[TextIO]
else:
    _Stream = logging.StreamHandler  # takes no parameter when it runs

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

    def format(self, record: logging.LogRecord) -> str:
        at = f"{_second(int(record.created))},{int(record.msecs):03}"
        line = f"{at} {record.levelname:<7} {record.name}: {plain(record.getMessage())}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        if record.stack_info:
            line = f"{line}\n{self.formatStack(record.stack_info)}"
        return line


class _Record(logging.LogRecord):
    """What our lines tell, and no more: each job has one, and the place in the code or the process would be found out
    for each."""

    pathname = filename = "(unknown file)"
    module = "Unknown module"
    lineno = 0
    relativeCreated = 0.0  # noqa: N815 - its name there
    funcName = ""  # noqa: N815
    exc_text = thread = threadName = process = processName = None  # noqa: N815

    def __init__(  # noqa: PLR0917 - as that of ``LogRecord``
        self,
        name: str,
        level: int,
        pathname: str,
        lineno: int,
        msg: object,
        args: Any,
        exc_info: Any,
        func: str | None = None,
        sinfo: str | None = None,
    ) -> None:
        self.name, self.msg, self.exc_info, self.stack_info = name, msg, exc_info, sinfo
        # A mapping alone is for the names in the message.
        self.args = args[0] if args and len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args
        self.levelno, self.levelname = level, logging.getLevelName(level)
        self.created = time.time()
        self.msecs = self.created % 1 * 1000


class _Sink(_Stream):
    """Whoever writes a line has the handler's lock."""

    def flush(self) -> None:
        self.stream.flush()


@lru_cache(maxsize=2)
def _second(at: int) -> str:
    """As logging tells it; many lines are of the same one."""
    return time.strftime(logging.Formatter.default_time_format, time.localtime(at))


def set_up_logs(settings: Settings) -> None:
    """Sets the process's logging; called once, by the command."""
    # What no line of ours tells, and would be found out for each: thread, process, and the place in the code.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the "Optimization" of Python's logging HOWTO has it
    logging.setLogRecordFactory(_Record)
    sink = _Sink()
    if settings.log_format == "json":
        sink.setFormatter(_JsonLine())
    else:
        sink.setFormatter(TextLine())
    logging.basicConfig(level=settings.log_level.upper(), handlers=[sink], force=True)
    quiet = max(logging.WARNING, logging.getLogger().level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(quiet)

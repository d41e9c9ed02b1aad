"""Bodies of the routes by which models come and go, and the lines in which Ollama tells how far it is."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from buffer.job import Failure
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import decode, read_fields, take, take_bool
from gateway.dialects.ollama import NO_BODY
from gateway.dialects.ollama_answer import error

MOST_BYTES = 256 * 1024
"""Of a line. Ollama's have a few hundred."""
NO_END = "The back end ended its answer before it was done."
SUCCESS = b'{"status":"success"}\n'
SERVED = b'{"status":"pulling manifest"}\n'
"""What is told first of a pull that has nothing to do."""

_DIGEST = re.compile(r"sha256[:-][0-9a-fA-F]{64}")
_HOSTS = ("registry.ollama.ai/", "https://registry.ollama.ai/", "http://registry.ollama.ai/")
_string = msgspec.json.Decoder(str)
_strings = msgspec.json.Decoder(dict[str, str])


_CREATE = (
    "from", "files", "adapters", "template", "license", "system", "parameters", "messages", "quantize", "quantization",
    "renderer", "parser", "requires",
)  # fmt: skip
_PASSED: dict[str, tuple[str, ...]] = {
    "/api/pull": ("model", "name", "stream", "insecure", "username", "password"),
    "/api/push": ("model", "name", "stream", "insecure", "username", "password"),
    "/api/create": ("model", "name", "stream", *_CREATE),
    "/api/copy": ("source", "destination"),
    "/api/delete": ("model", "name"),
}
"""Fields that go on to an Ollama. Of those that do not, some had it read files of its own machine, or call others."""


class Wanted(Struct):
    """What the body of such a request asks, as far as it matters on the way."""

    path: str
    model: str
    """The model that is to come, or to go."""
    source: str
    """The model that has to be there for it; empty: none."""
    stream: bool
    body: bytes
    """What an Ollama is to be sent of it."""
    blobs: bool = False
    """It is made of blobs that were sent before."""


class _Line(Struct):
    status: str = ""
    error: object = None


_line = msgspec.json.Decoder(_Line)


def parse(path: str, body: bytes) -> Wanted:
    """What the body of a request for ``path`` asks. Raises ``BadRequest``."""
    fields = read_fields(body, NO_BODY)
    passed = msgspec.json.encode({name: fields[name] for name in _PASSED[path] if name in fields})
    if path == "/api/copy":
        source = take(fields, "source", _string, "a string")
        destination = take(fields, "destination", _string, "a string")
        for name, value in (("source", source), ("destination", destination)):
            if not value:
                raise BadRequest(f"{name} is required", param=name)
        return Wanted(path, destination or "", source or "", stream=False, body=passed)
    older = take(fields, "name", _string, "a string")
    model = take(fields, "model", _string, "a string") or older
    if not model:
        raise BadRequest("model is required", param="model")
    stream = take_bool(fields, "stream") is not False
    if path != "/api/create":
        return Wanted(path, model, "" if path == "/api/pull" else model, stream, passed)
    blobs = any(name in fields and decode(fields[name], _strings, name, "an object") for name in ("files", "adapters"))
    return Wanted(path, model, take(fields, "from", _string, "a string") or "", stream, passed, blobs)


def streamed(body: bytes) -> bytes:
    """What an Ollama is to be sent of a pull, to tell how far it is."""
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    fields.pop("stream", None)
    return msgspec.json.encode(fields)


def check_digest(digest: str) -> None:
    """Raises ``BadRequest`` for what is no digest, and might be a path."""
    if not _DIGEST.fullmatch(digest):
        raise BadRequest("invalid digest format", param="digest")


def same_model(one: str, other: str) -> bool:
    """Whether Ollama takes two names for one model's. It is stricter than chats are: what is meant here is removed."""
    return _canonical(one) == _canonical(other)


def _canonical(name: str) -> str:
    name = name.strip().lower()
    for host in _HOSTS:
        name = name.removeprefix(host)
    name = name.removeprefix("library/")
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


class Progress:
    """A stream of lines, told as it comes, but that its last one can be kept back until its word is true."""

    def __init__(self) -> None:
        self.done = False
        """The last line was that of a success; it has not been given out."""
        self.error: object = None
        """What a line said that went wrong."""
        self.last = b""
        """The last status, to be said again where nothing new is to say."""
        self._rest = b""

    @property
    def failed(self) -> bool:
        return self.error is not None

    def feed(self, data: bytes) -> bytes:
        """The whole lines that are there by now. Raises ``ValueError`` where there is no end of one."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MOST_BYTES:
            raise ValueError("a line without end")
        return b"".join(map(self._take, lines))

    def flush(self) -> bytes:
        """What a last line without its end says."""
        rest, self._rest = self._rest, b""
        return self._take(rest)

    def _take(self, line: bytes) -> bytes:
        line = line.strip()
        if not line or self.done:  # clients stumble over an empty line
            return b""
        try:
            told = _line.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return b""
        if told.error is not None:
            self.error = told.error
            # An error that is no plain text makes Ollama's own client fail at it.
            return line + b"\n" if isinstance(told.error, str) else failed("The back end failed.")
        if told.status == "success":
            self.done = True
            return b""
        if told.status:
            self.last = line + b"\n"
        return line + b"\n"


def failed(message: str) -> bytes:
    """The line that ends a stream that went wrong."""
    return error(Failure(message)) + b"\n"

"""The lines of an offline batch: of the file that it reads, and of those that it writes. Pure.

checker = Checker("/v1/chat/completions")
for chunk in …: for offset, length in checker.feed(chunk): …     # where each good line is, in their order
for offset, length in checker.finish(): …                        # the last one
checker.errors, checker.total, checker.model                     # no errors: line n is the n-th of the places
line = check_line(data, n, endpoint)                             # once more, when its turn has come
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import msgspec
from msgspec import Raw, Struct

from buffer.names import model_key
from buffer.offline_record import BatchError
from gateway.dialects.fields import MOST_LEVELS, levels

MOST_LINES = 50_000
MOST_LINE_BYTES = 32 * 1024 * 1024
"""One line at a time is in memory."""
MOST_ERRORS = 100
"""That a batch tells of."""
MOST_ID_CHARS = 512
_BOM = b"\xef\xbb\xbf"
_NEEDED = ("custom_id", "method", "url", "body")
_fields = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


class Line(Struct, frozen=True):
    """One request of an offline batch."""

    number: int
    """From 1 on."""
    custom_id: str
    model: str
    """As the client spells it."""
    body: bytes
    """As it would be sent to the endpoint."""


def check_line(data: bytes, number: int, endpoint: str) -> Line | BatchError:
    """The request that a line of the file has, or what is wrong with it."""

    def wrong(code: str, message: str, param: str | None = None) -> BatchError:
        return BatchError(code, message, param, number)

    fields = _object(data)
    if fields is None:
        return wrong("invalid_json_line", "This line is not a JSON object.")
    for name in _NEEDED:
        if name not in fields:
            return wrong("missing_required_parameter", f"Missing required parameter: '{name}'.", name)
    custom_id, method, url = (_text(fields[name]) for name in _NEEDED[:3])
    if not custom_id or len(custom_id) > MOST_ID_CHARS:
        return wrong("invalid_custom_id", f"custom_id is a string of 1 to {MOST_ID_CHARS} characters.", "custom_id")
    if method != "POST":
        return wrong("invalid_method", "The method of each line is POST.", "method")
    if url != endpoint:
        return wrong("url_mismatch", f"The url of each line is the endpoint of the batch, {endpoint}.", "url")
    body = _object(bytes(fields["body"]))
    if body is None:
        return wrong("invalid_body", "The body is a JSON object, as the endpoint takes it.", "body")
    if "model" not in body:
        return wrong("missing_required_parameter", "Missing required parameter: 'body.model'.", "body.model")
    model = _text(body["model"])
    if not model or not model.strip():
        return wrong("invalid_model", "body.model is the name of a model.", "body.model")
    if bytes(body.get("stream", b"false")) not in {b"false", b"null"}:
        return wrong("stream_unsupported", "An offline batch has no streams; leave out 'stream'.", "body.stream")
    return Line(number, custom_id, model, bytes(fields["body"]))


def _object(data: bytes) -> dict[str, Raw] | None:
    """None: it is no object, or one that whoever decodes it later could not."""
    try:
        if not data.isascii():
            data.decode()
        found = _fields.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if data.count(b"{") + data.count(b"[") > MOST_LEVELS and levels(data) > MOST_LEVELS:
        return None
    return found


def _text(raw: Raw) -> str | None:
    try:
        return _string.decode(raw)
    except msgspec.DecodeError:
        return None


class Checker:
    """Looks through a file once, whatever pieces it comes in, and keeps of it one line, and a digest of each id."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._held = list[bytes]()
        self._held_bytes = 0
        self._begin = 0  # where in the file the line begins that is held
        self._number = 0
        self._blanks = list[int]()
        self._ids = set[bytes]()
        self._model = ""
        self._over = False
        self.total = 0
        """Good lines."""
        self.errors = list[BatchError]()
        """What keeps the batch from beginning: ``MOST_ERRORS`` at most. Whole after ``finish``."""

    @property
    def model(self) -> str | None:
        """The model that all lines ask for."""
        return self._model or None

    def feed(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Offset and length of each good line that ends in this piece. Has to be run through."""
        if self._over:
            return
        at = 0
        while not self._over and (end := chunk.find(b"\n", at)) >= 0:
            yield from self._line(chunk[at:end])
            self._begin += self._held_bytes + end - at + 1
            self._held, self._held_bytes = [], 0
            at = end + 1
        rest = len(chunk) - at
        if self._held_bytes <= MOST_LINE_BYTES:
            self._held.append(chunk[at:])
        self._held_bytes += rest

    def finish(self) -> Iterator[tuple[int, int]]:
        """The last line, where nothing ended it. Has to be run through."""
        if not self._over and self._held_bytes:
            yield from self._line(b"")
        if not self.total and not self.errors:
            self._wrong(BatchError("empty_file", "The file has no requests."))

    def _line(self, last: bytes) -> Iterator[tuple[int, int]]:
        self._number += 1
        length = self._held_bytes + len(last)
        if length > MOST_LINE_BYTES:
            most = MOST_LINE_BYTES // 1024**2
            self._wrong(BatchError("line_too_long", f"A line may have {most} MB at most.", None, self._number))
            return
        data = b"".join([*self._held, last])
        skipped = len(_BOM) if self._number == 1 and data.startswith(_BOM) else 0
        data = data[skipped:]
        if not data or data.isspace():
            if self._number > 2 * MOST_LINES:
                self._too_many()
                return
            self._blanks.append(self._number)
            del self._blanks[MOST_ERRORS:]
            return
        for number in self._blanks:  # they are at the end of the file only, where they do no harm
            self._wrong(BatchError("invalid_json_line", "This line is empty.", None, number))
        self._blanks.clear()
        if self._number > MOST_LINES:
            self._too_many()
            return
        line = check_line(data, self._number, self._endpoint)
        if isinstance(line, BatchError):
            self._wrong(line)
        elif self._fits(line):
            self.total += 1
            yield self._begin + skipped, len(data)

    def _too_many(self) -> None:
        """Nothing else is to be known of the file."""
        self._over = True
        self.errors = [BatchError("too_many_tasks", f"A batch may have {MOST_LINES:,} requests at most.")]

    def _fits(self, line: Line) -> bool:
        """It goes with those before it."""
        id = blake2b(line.custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if id in self._ids:
            message = "The custom_id of this line is that of a line before it."
            self._wrong(BatchError("duplicate_custom_id", message, "custom_id", line.number))
            return False
        self._ids.add(id)
        if not self._model:
            self._model = line.model
        elif line.model != self._model and model_key(line.model) != model_key(self._model):
            message = "All lines of a batch ask for the same model."
            self._wrong(BatchError("model_mismatch", message, "body.model", line.number))
            return False
        return True

    def _wrong(self, error: BatchError) -> None:
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(error)

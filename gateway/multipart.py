"""A form with one file in it, of any size: read as it comes, never whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.dialects.errors import BadRequest

MOST_PARTS = 32
MOST_FIELD_BYTES = 4096
MOST_FILENAME_CHARS = 255
_NO_FORM = "The request body is a form: multipart/form-data with a boundary, and a part named 'file'."
_BROKEN = "The request body is no whole form: multipart/form-data that ends with its boundary."

# It quotes what it stumbles over.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


class FileForm:
    """``chunks`` gives the file as it comes; ``fields`` is whole once all of it came. Raises ``BadRequest``."""

    def __init__(self, content_type: str, pieces: AsyncIterator[bytes]) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not boundary:
            raise BadRequest(_NO_FORM)
        self._pieces = pieces
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_part_end": self._part_ends,
                    "on_end": self._form_ends,
                },
            )
        except FormParserError:
            raise BadRequest(_NO_FORM) from None
        self.fields: dict[str, str] = {}
        """All parts but the file."""
        self.filename = ""
        self.has_file = False
        self._parts = 0
        self._name = self._value = b""
        self._disposition = ""
        self._field: str | None = None  # None: the part is the file
        self._held = bytearray()
        self._came: list[bytes] = []
        self._whole = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """The part named ``file``; there is one at most. Reads the form to its end."""
        async for piece in self._pieces:
            try:
                self._parser.write(piece)
            except FormParserError:
                raise BadRequest(_BROKEN) from None
            came, self._came = self._came, []
            for chunk in came:
                yield chunk
        if not self._whole:
            raise BadRequest(_BROKEN)

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise BadRequest(f"A form may have {MOST_PARTS} parts at most.")
        self._name = self._value = b""
        self._disposition = ""
        self._held.clear()

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._name.lower() == b"content-disposition":
            self._disposition = self._value.decode("latin-1")
        self._name = self._value = b""

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._disposition)
        name = options.get(b"name")
        if kind != b"form-data" or name is None:
            raise BadRequest("A part of the form has no name.")
        self._field = _text(name)
        if self._field == "file" and b"filename" in options:
            if self.has_file:
                raise BadRequest("The form has two files; upload them one by one.", param="file")
            self.has_file = True
            self._field = None
            self.filename = "".join(one for one in _text(options[b"filename"]) if one.isprintable())
            if len(self.filename) > MOST_FILENAME_CHARS:
                raise BadRequest(f"A file's name has {MOST_FILENAME_CHARS} characters at most.", param="file")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field is None:
            self._came.append(data[start:end])
            return
        self._held += data[start:end]
        if len(self._held) > MOST_FIELD_BYTES:
            raise BadRequest("A part of the form is too large for a value.", param=_shown(self._field))

    def _part_ends(self) -> None:
        if self._field is not None:
            self.fields[self._field] = _text(bytes(self._held))
        self._field = ""

    def _form_ends(self) -> None:
        self._whole = True


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRequest("A part of the form is not valid UTF-8.") from None


def _shown(name: str) -> str:
    """A field's name in an error: the client's word, cut."""
    return name[:64]

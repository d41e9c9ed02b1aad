"""Forms with a file in them: in any pieces, in any order, and whatever is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buffer.file_record import About
from gateway.dialects.errors import BadRequest
from gateway.dialects.offline_forms import parse_batch, read_page, read_upload
from gateway.multipart import MOST_FIELD_BYTES, MOST_PARTS, FileForm
from tests.offline.kept import stream

BOUNDARY = "a-boundary'()+_,-./:=?"
TYPE = f'multipart/form-data; boundary="{BOUNDARY}"'


def part(name: str, data: bytes, filename: str | None = None, *more: str) -> bytes:
    disposition = f'Content-Disposition: form-data; name="{name}"'
    if filename is not None:
        disposition += f'; filename="{filename}"'
    head = "\r\n".join([f"--{BOUNDARY}", disposition, *more, "", ""])
    return head.encode() + data + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


async def read(body: bytes, size: int = 0, kind: str = TYPE) -> tuple[FileForm, bytes]:
    """The form that comes in pieces of that size, and its file."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)] if size else [body]
    found = FileForm(kind, stream(*pieces))
    return found, b"".join([chunk async for chunk in found.chunks()])


PURPOSE = part("purpose", b"batch")


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.sampled_from([b"\r", b"\n", b"-", b"--", b"\r\n--", b"x", f"\r\n--{BOUNDARY[:-1]}".encode(), b"\x00\xff"]),
        max_size=40,
    ),
    st.integers(1, 70),
    st.booleans(),
)
async def test_any_file_comes_out_as_it_went_in(words: Sequence[bytes], size: int, last: bool) -> None:
    data = b"".join(words)
    file = part("file", data, "in.jsonl", "Content-Type: application/octet-stream")
    found, read_data = await read(form(*([PURPOSE, file] if last else [file, PURPOSE])), size)
    assert read_data == data
    assert (found.fields, found.filename, found.has_file) == ({"purpose": "batch"}, "in.jsonl", True)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=400), st.integers(1, 50))
async def test_whatever_comes_is_read_or_refused(junk: bytes, size: int) -> None:
    for body in (junk, form(PURPOSE)[:20] + junk, form(part("file", b"x", "in.jsonl"))[:-8] + junk):
        try:
            await read(body, size)
        except BadRequest as error:
            assert error.status == 400  # noqa: PT017 - most of it is none


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 400))
async def test_a_form_that_is_cut_off_is_refused(cut: int) -> None:
    body = form(PURPOSE, part("file", b"x" * 100, "in.jsonl"))
    end = len(body) - 2  # the line break behind the last boundary may lack
    if cut < end:
        with pytest.raises(BadRequest):
            await read(body[:cut])
    else:
        await read(body[: min(cut, len(body))])


@pytest.mark.parametrize(
    "kind",
    [
        *("", "application/json", "multipart/form-data", "multipart/form-data; boundary="),
        *("multipart/mixed; boundary=x", f"multipart/form-data; boundary={'x' * 5000}"),
    ],
)
async def test_what_is_no_form_is_refused(kind: str) -> None:
    with pytest.raises(BadRequest, match="multipart/form-data"):
        await read(form(PURPOSE), kind=kind)


@pytest.mark.parametrize(
    "body",
    [
        form(part("file", b"a", "a.jsonl"), part("file", b"b", "b.jsonl")),
        form(part("purpose", b"x" * (MOST_FIELD_BYTES + 1))),
        form(*[part(f"field {number}", b"x") for number in range(MOST_PARTS + 1)]),
        form(part("purpose", b"\xff")),
        form(part("file", b"a", "x" * 256)),
        form(PURPOSE.replace(b"form-data", b"attachment")),
        form(PURPOSE.replace(b'name="purpose"', b"")),
        form(PURPOSE.replace(b"Content-Disposition: ", b"X: ")),
        form(PURPOSE.replace(b"\r\n\r\n", b"\r\n" + b"X: y\r\n" * 50 + b"\r\n")),
        form(PURPOSE.replace(b"\r\n\r\n", b"\r\nX: " + b"y" * 100_000 + b"\r\n\r\n")),
        form(PURPOSE.replace(b"\r\n\r\n", b"\r\nno header\r\n\r\n")),
    ],
)
async def test_a_form_that_is_odd_is_refused(body: bytes) -> None:
    for size in (0, 1, 7):
        with pytest.raises(BadRequest):
            await read(body, size)


async def test_a_name_is_no_path_and_no_terminals_order() -> None:
    for name, shown in (
        ("../../x.jsonl", "../../x.jsonl"),
        ("a\x1b[31m\x07.jsonl", "a[31m.jsonl"),
        ("é.jsonl", "é.jsonl"),
    ):
        found, _ = await read(form(part("file", b"", name)))
        assert found.filename == shown


async def test_a_part_without_a_filename_is_no_file() -> None:
    found, data = await read(form(part("file", b"text")))
    assert (found.has_file, data, found.fields) == (False, b"", {"file": "text"})


# --- what is in them

GOOD = {"purpose": "batch"}
EXPIRES = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}


def test_an_upload_says_what_it_is() -> None:
    assert read_upload(GOOD, "In.JSONL", has_file=True, now=1000) == About("In.JSONL", "batch", None)
    assert read_upload(GOOD | EXPIRES, "in.jsonl", has_file=True, now=1000) == About("in.jsonl", "batch", 4600)


@pytest.mark.parametrize(
    ("fields", "filename", "has_file", "param"),
    [
        ({}, "in.jsonl", True, "purpose"),
        ({"purpose": "fine-tune"}, "in.jsonl", True, "purpose"),
        (GOOD, "", False, "file"),
        (GOOD, "in.json", True, "file"),
        (GOOD, "jsonl", True, "file"),
        (GOOD | {"expires_after[anchor]": "created_at"}, "in.jsonl", True, "expires_after"),
        (GOOD | {"expires_after[seconds]": "3600"}, "in.jsonl", True, "expires_after"),
        (GOOD | EXPIRES | {"expires_after[anchor]": "last_active_at"}, "in.jsonl", True, "expires_after"),
        *(
            (GOOD | EXPIRES | {"expires_after[seconds]": seconds}, "in.jsonl", True, "expires_after")
            for seconds in ("3599", "2592001", "-3600", "1e4", "", "٣٦٠٠", "9" * 5000)
        ),
    ],
)
def test_a_wrong_upload_is_refused(fields: dict[str, str], filename: str, has_file: bool, param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_upload(fields, filename, has_file=has_file, now=1000)
    assert refused.value.param == param


BATCH = b'{"input_file_id":"file-x","endpoint":"/v1/embeddings","completion_window":"24h"%s}'


def test_a_batch_says_what_it_wants() -> None:
    wanted = parse_batch(BATCH % b"")
    assert (wanted.input_file_id, wanted.endpoint, wanted.metadata) == ("file-x", "/v1/embeddings", None)
    more = b',"metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":3600},"unknown":[1]'
    wanted = parse_batch(BATCH % more)
    assert (wanted.metadata, wanted.output_s) == ({"a": "b"}, 3600)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", ""),
        (b"[]", ""),
        (b"{", ""),
        ((BATCH % b"").replace(b"file-x", b""), "input_file_id"),
        ((BATCH % b"").replace(b'"file-x"', b"7"), "input_file_id"),
        ((BATCH % b"").replace(b"endpoint", b"end"), "endpoint"),
        ((BATCH % b"").replace(b"/v1/embeddings", b"/v1/responses"), "endpoint"),
        ((BATCH % b"").replace(b"completion_window", b"window"), "completion_window"),
        ((BATCH % b"").replace(b"24h", b"48h"), "completion_window"),
        (BATCH % b',"metadata":[]', "metadata"),
        (BATCH % b',"metadata":{"a":1}', "metadata"),
        (BATCH % (b',"metadata":{"%s":"b"}' % (b"x" * 65)), "metadata"),
        (BATCH % (b',"metadata":{"a":"%s"}' % (b"x" * 513)), "metadata"),
        (BATCH % (b',"metadata":{%s}' % b",".join(b'"%d":""' % one for one in range(17))), "metadata"),
        (BATCH % b',"output_expires_after":"3600"', "output_expires_after"),
        (BATCH % b',"output_expires_after":{}', "output_expires_after"),
        (BATCH % b',"output_expires_after":{"anchor":"created_at","seconds":3599}', "output_expires_after"),
        (BATCH % b',"output_expires_after":{"anchor":"created_at","seconds":true}', "output_expires_after"),
        (BATCH % b',"output_expires_after":{"anchor":"created_at","seconds":3600.5}', "output_expires_after"),
        (BATCH % b',"output_expires_after":{"anchor":"now","seconds":3600}', "output_expires_after"),
    ],
)
def test_a_wrong_batch_is_refused(body: bytes, param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_batch(body)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("query", "param"),
    [({"limit": "0"}, "limit"), ({"limit": "101"}, "limit"), ({"limit": "x"}, "limit"), ({"order": "up"}, "order")],
)
def test_a_wrong_page_is_refused(query: dict[str, str], param: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_page(query, most=100, usual=20)
    assert refused.value.param == param

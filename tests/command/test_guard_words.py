"""What no honest client says to a server, and what is said to it."""

from __future__ import annotations

import pytest

from tests.command.guard_rig import GET, alive, gateway, said, statuses


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (
            b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            [400],
        ),
        (
            b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
            [400],
        ),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nabcd", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\nabcd", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", [400]),
        (b"POST /api/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n", [400]),
        (b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n", [400]),
        (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, [400]),
        (b"TRACE /api/tags HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", [405]),
        (b"GET http://evil.example/api/version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", [200]),
    ],
)
async def test_what_no_honest_client_says(request_bytes: bytes, expected: list[int]) -> None:
    async with gateway() as port:
        assert statuses(await said(port, request_bytes)) == expected
        await alive(port)


async def test_nothing_is_smuggled_behind_a_length_that_lies() -> None:
    """Two readings of where the first body ends; by neither is there a second request."""
    inner = b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (
        b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (len(inner) + 5),
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: identity, chunked, identity\r\n",
    ):
        async with gateway() as port:
            request = b"POST /nothing HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n0\r\n\r\n" + inner
            assert 200 not in statuses(await said(port, request))


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c", b"TLS/1.0"])
async def test_nothing_is_upgraded(protocol: bytes) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    async with gateway() as port:
        ahead = GET + upgrade + b"\r\n" + GET + b"Connection: close\r\n\r\n"
        assert statuses(await said(port, ahead)) == [200, 200]
        posted = b"POST /api/show HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + upgrade + b"\r\n{}"
        assert statuses(await said(port, posted + GET + b"Connection: close\r\n\r\n")) == [400, 200]


async def test_a_hostile_crowd_leaves_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway() as port:
        for request in (
            b"\0" * 50,
            GET + b"X: " + b"a" * 9000,
            GET + b"Connection: upgrade, close\r\nUpgrade: x\r\n\r\n",
        ):
            await said(port, request)
    assert [record.getMessage() for record in caplog.records if "uvicorn" in record.name] == []

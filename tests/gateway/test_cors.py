from __future__ import annotations

import pytest

from buffer.setting_values import OLLAMA_ORIGINS
from gateway.cors import Cors


@pytest.mark.parametrize(
    "origin",
    [
        b"http://localhost",
        b"https://localhost:5173",
        b"http://127.0.0.1:8080",
        b"https://0.0.0.0",
        b"HTTP://LOCALHOST:3000",
        b"app://obsidian.md",
        b"file://",
        b"tauri://localhost",
        b"vscode-webview://0abc",
    ],
)
def test_origins_of_ollamas_list_may_read(origin: bytes) -> None:
    headers = dict(Cors(OLLAMA_ORIGINS).headers(origin))
    assert headers[b"access-control-allow-origin"] == origin
    assert headers[b"vary"] == b"Origin"


@pytest.mark.parametrize(
    "origin",
    [None, b"https://evil.example", b"http://localhost.evil.example", b"http://evil.example#http://localhost", b"null"],
)
def test_other_origins_may_not(origin: bytes | None) -> None:
    cors = Cors(OLLAMA_ORIGINS)
    assert cors.headers(origin) == []
    assert cors.preflight(origin, b"authorization") == []


def test_a_star_alone_is_everybody_and_an_empty_list_nobody() -> None:
    assert dict(Cors(["*"]).headers(b"https://any.example"))[b"access-control-allow-origin"] == b"https://any.example"
    assert Cors([]).headers(b"http://localhost") == []
    assert Cors([]).headers(b"") == []


def test_a_preflight_grants_the_headers_that_it_asks_for() -> None:
    cors = Cors(["https://chat.example"])
    granted = dict(cors.preflight(b"https://chat.example", b"x-stainless-os, authorization"))
    assert granted[b"access-control-allow-headers"] == b"x-stainless-os, authorization"
    assert b"POST" in granted[b"access-control-allow-methods"]


def test_what_is_remembered_of_origins_is_bounded() -> None:
    cors = Cors(OLLAMA_ORIGINS)
    for i in range(5000):
        cors.headers(b"https://%d.example" % i)
    assert len(cors._known) <= 1024
    assert cors.headers(b"http://localhost")


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:11435", "127.0.0.1:11435", "10.0.0.7", "[::1]:80", "[fe80::1]", "", "gateway", "x:1"),
        *(
            "mini.local:11435",
            "host.docker.internal",
            "Chat.LocalHost",
            "nas.home.arpa",
            "ok.example",
            "ok.example:8443",
        ),
    ],
)
def test_names_of_this_machine_and_its_network_are_ours(host: str) -> None:
    assert Cors([*OLLAMA_ORIGINS, "http://ok.example", "https://ok.example:*"]).is_near(host.encode())


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:11435",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.local.example",
        "a.b.",
    ],
)
def test_names_of_the_world_are_not(host: str) -> None:
    assert not Cors([*OLLAMA_ORIGINS, "http://ok.example"]).is_near(host.encode())

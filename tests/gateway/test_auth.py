from __future__ import annotations

import pytest

from buffer.setting_values import ApiKey
from gateway.auth import ANYBODY, Keyring

KEYS = Keyring([ApiKey(name="ann", key="k-ann"), ApiKey(name="ui", key="k:ui", trusted=True, lanes=["fast"])])


def test_a_key_is_taken_from_either_header() -> None:
    ann = KEYS.holder("/api/chat", {b"authorization": b"Bearer k-ann"})
    assert ann is not None
    assert (ann.name, ann.trusted) == ("ann", False)
    ui = KEYS.holder("/api/chat", {b"x-api-key": b"k:ui"})
    assert ui is not None
    assert (ui.name, ui.trusted, ui.lanes) == ("ui", True, frozenset({"fast"}))
    assert KEYS.holder("/api/chat", {b"authorization": b"bearer k-ann"}) is ann


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"authorization": b"Bearer wrong"},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Basic k-ann"},
        {b"authorization": b"k-ann"},
        {b"x-api-key": b"k-ann2"},
        {b"x-api-key": b"k-an"},
    ],
)
def test_without_a_key_that_fits_nobody_comes_in(headers: dict[bytes, bytes]) -> None:
    assert KEYS.holder("/v1/models", headers) is None
    assert KEYS.holder("/metrics", headers) is None


@pytest.mark.parametrize("path", ["/", "/health", "/health/ready", "/api/version"])
def test_some_paths_are_open(path: str) -> None:
    assert KEYS.holder(path, {}) is ANYBODY


def test_no_path_is_open_for_looking_like_one() -> None:
    for path in ("/healthy", "/api/version/x", "/api/tags", "//", "/docs"):
        assert KEYS.holder(path, {}) is None


def test_without_keys_everybody_is_trusted() -> None:
    assert Keyring([]).holder("/api/chat", {}) is ANYBODY


def test_no_key_is_kept() -> None:
    assert "k-ann" not in repr(vars(KEYS))

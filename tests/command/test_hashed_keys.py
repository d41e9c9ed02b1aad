"""Keys that are given as their hashes, and keys that only look so."""

from __future__ import annotations

import pytest

from buffer.setting_sources import load_settings
from buffer.setting_values import ApiKey, hashed
from doublebuffer.doctor import run_doctor
from gateway.auth import Keyring
from tests.command.settings_rig import write_file

HASH = hashed(b"secret")
BARE = HASH.removeprefix("sha256:")


@pytest.mark.parametrize("given", [HASH, HASH.upper(), f"sha256:{BARE.upper()}", f"  {HASH}\n"])
def test_capitals_are_the_same_hash(given: str) -> None:
    key = ApiKey(name="ann", key=given)
    assert key.key == HASH
    keys = Keyring([key])
    assert keys.holder("/v1/models", {b"x-api-key": b"secret"}) is not None
    assert keys.holder("/v1/models", {b"x-api-key": given.strip().encode()}) is None


@pytest.mark.parametrize("more", ["", "  -", "0f", "\u0660", "\n0"])
def test_a_slip_is_no_key(more: str) -> None:
    with pytest.raises(ValueError, match="key 'ann' begins with sha256: and is no hash"):
        ApiKey(name="ann", key=f"{HASH[:-1]}{more}")


@pytest.mark.parametrize("given", [BARE, BARE.upper()])
async def test_the_doctor_hints_at_a_key_that_may_be_a_hash(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A key may look like that all the same: it works, and nothing is wrong."""
    write_file(f"[[keys]]\nname = 'ann'\nkey = '{given}'\n[[keys]]\nname = 'bob'\nkey = '{HASH}'")
    keys = Keyring(load_settings().api_keys)
    assert keys.holder("/v1/models", {b"x-api-key": given.encode()}) is not None
    await run_doctor(load_settings, [])
    hints = [line for line in capsys.readouterr().out.splitlines() if "64 hexadecimal digits" in line]
    assert [hint.startswith("• key 'ann': ") for hint in hints] == [True]
    assert given not in hints[0]


def test_the_file_cannot_say_how_a_key_looks() -> None:
    write_file("[[keys]]\nname = 'ann'\nkey = 'x'\nbare_hash = true")
    with pytest.raises(Exception, match="bare_hash"):
        load_settings()

"""A sentence that names it for every setting that cannot be used, and no secret in it."""

from __future__ import annotations

import json

import msgspec
import pytest

from buffer.setting_sources import SettingsError, load_settings
from buffer.setting_values import without_password
from tests.command.settings_rig import BACKEND, by_flags, write_file


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--window-ms", "-1"),
        ("--window-ms", "soon"),
        ("--window-ms", "nan"),
        ("--window-policy", "never"),
        ("--batch-size", "0"),
        ("--batch-size", "2.5"),
        ("--max-in-flight", "some"),
        ("--port", "70000"),
        ("--processes", "0"),
        ("--lease-seconds", "0"),
        ("--refuse-wait-seconds", '{"quick": 1}'),
        ("--refuse-wait-seconds", "{"),
        ("--refuse-wait-seconds", "soon"),
        ("--redis-url", "http://redis"),
        ("--redis-url", "redis://redis:6379/x"),
        ("--redis-url", "redis://redis/-1"),
        ("--redis-url", "rediss://redis/1/2"),
        ("--redis-url", "redis://redis:port/0"),
        ("--redis-url", "redis+cluster://redis:6379/3"),
        ("--resume", "perhaps"),
        ("--cache", "sometimes"),
        ("--cache-ttl-seconds", "0"),
        ("--cache-max-bytes", "0"),
        ("--cache-per-user", "2"),
        ("--single-flight", "perhaps"),
        ("--log-level", "loud"),
        ("--key-prefix", "a{b}"),
        ("--api-keys", "nameless"),
        ("--api-keys", "a:1,a:2"),
        ("--backends", "[]]"),
        ("--backends", '[{"name": "a", "kind": "tgi", "url": "http://a"}]'),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "a:8000"}]'),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "http://a", "colour": 1}]'),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "http://a", "max_in_flight": 0}]'),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "http://a", "fallback_for": ["a"]}]'),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "http://a", "fallback_for": ["b\\r\\nc"]}]'),
        (
            "--backends",
            '[{"name": "a", "kind": "vllm", "url": "http://a", "fallback_for": ["b"]},'
            ' {"name": "b", "kind": "vllm", "url": "http://b", "fallback_for": ["a"]}]',
        ),
        (
            "--backends",
            '[{"name": "a", "kind": "vllm", "url": "http://a", "fallback_for": ["b"]},'
            ' {"name": "b", "kind": "vllm", "url": "http://b", "pool": "other"}]',
        ),
        ("--backends", '[{"name": "a\\r\\nb", "kind": "vllm", "url": "http://a"}]'),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "http://a", "pool": "{x}"}]'),
        (
            "--backends",
            '[{"name": "a", "kind": "vllm", "url": "http://a"}, {"name": "a", "kind": "vllm", "url": "http://b"}]',
        ),
    ],
)
def test_a_bad_value_is_refused_by_name(flag: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        by_flags(flag, value)
    sentence = str(refused.value)
    assert sentence.startswith(flag)
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("DOUBLEBUFFER_WINDOWS_MS", "1", "DOUBLEBUFFER_WINDOW_MS is"),
        ("DOUBLEBUFFER_REDIS_URL", "redis://a", "REDIS_URL is"),
        ("DOUBLEBUFFER_BATCH_SIZE", "many", "DOUBLEBUFFER_BATCH_SIZE"),
        ("RATE_LIMIT_WINDOW", "a while", "RATE_LIMIT_WINDOW"),
        ("RATE_LIMIT_BATCH_SIZE", "0", "RATE_LIMIT_BATCH_SIZE"),
        ("OLLAMA_BASE_URL", "/ollama", "OLLAMA_BASE_URL"),
        ("USE_REDIS_QUEUE", "true", "REDIS_URL"),
        ("USE_REDIS_QUEUE", "maybe", "USE_REDIS_QUEUE"),
        ("DOUBLEBUFFER_FAST_TOKENS", "5000", "DOUBLEBUFFER_NORMAL_TOKENS"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(name: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert name in str(refused.value)
    assert told in str(refused.value)


def test_two_ollamas_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://a")
    monkeypatch.setenv("OLLAMA_API_BASE_URL", "http://b/api")
    with pytest.raises(SettingsError, match="OLLAMA_BASE_URL and OLLAMA_API_BASE_URL"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("window = 3", "window in doublebuffer.toml is no setting"),
        ("window_ms = 'x'", "window_ms in doublebuffer.toml (DOUBLEBUFFER_WINDOW_MS)"),
        ("batch_size = true", "batch_size in doublebuffer.toml"),
        ("window_ms = ", "doublebuffer.toml is no TOML"),
        ("api_keys = 'a:b'\n[[keys]]\nname = 'a'\nkey = 'b'", "keys and api_keys"),
        ("[[keys]]\nname = 'a'\nkey = 'b'\nshare = 0", "key 'a' has a share"),
        ("[[keys]]\nname = 'a'\nkey = 'b'\nshare = 1.5", "key 'a' has a share"),
        ("[[keys]]\nname = 'a'\nkey = 'b'\nrequests_per_minute = 0", "key 'a' has requests_per_minute"),
        ("[[keys]]\nname = 'a'\nkey = 'b'\nrequests_per_day = 1", "requests_per_day"),
        ("[backends]\nname = 'a'", "backends in doublebuffer.toml"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text: str, told: str) -> None:
    write_file(text)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert told in str(refused.value)


HASH = "ab" * 32


@pytest.mark.parametrize(
    "slip",
    [
        f"{HASH}  -",
        f"{HASH} *-",
        HASH[:-1],
        f"{HASH}0",
        f" {HASH}",
        f"{HASH[:-1]}g",
        "",
        "secret",
    ],
)
@pytest.mark.parametrize("mark", ["sha256:", "SHA256:"])
def test_a_hash_with_a_slip_in_it_is_no_key(mark: str, slip: str) -> None:
    write_file(f"[[keys]]\nname = 'ann'\nkey = '{mark}{slip}'")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    sentence = str(refused.value)
    assert sentence.startswith(
        "keys in doublebuffer.toml (DOUBLEBUFFER_API_KEYS) cannot be used: key 'ann' begins with"
    )
    assert sentence.endswith(".")
    with pytest.raises(SettingsError, match="key 'ann' begins with sha256:"):
        by_flags("--api-keys", f"ann:{mark}{slip}")


@pytest.mark.parametrize("url", ["redis://a", "redis://a/", "redis://u:p@a:1/12", "rediss://a/0/", "redis://a?db=3"])
def test_a_database_is_a_number_or_none(url: str) -> None:
    assert by_flags("--redis-url", url).redis_url == url


def test_a_config_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsError, match="--config"):
        by_flags("--config", "nowhere.toml")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--api-keys", "ann:topsecret,ann:topsecret"),
        ("--api-keys", "ann:sha256:topsecret"),
        ("--redis-url", "redis//:topsecret@host"),
        ("--redis-url", "redis://:topsecret"),
        ("--redis-url", "redis://:topsecret/2@host"),
        ("--redis-url", "redis://:1/topsecret@host"),
        ("--redis-url", "redis://:topsecret\u2100@host"),
        ("--backends", '[{"name": "a", "kind": "vllm", "url": "x", "api_key": "topsecret"}]'),
    ],
)
def test_a_refusal_holds_no_secret(flag: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        by_flags(flag, value)
    assert "topsecret" not in str(refused.value)


def test_settings_shown_hold_no_secret() -> None:
    settings = by_flags(
        *("--api-keys", "ann:topsecret", "--redis-url", "redis://u:topsecret@h"),
        *("--backends", json.dumps([BACKEND | {"api_key": "topsecret"}])),
    )
    assert "topsecret" not in repr(settings)
    assert "topsecret" not in str([msgspec.structs.astuple(key) for key in settings.api_keys])
    assert "topsecret" not in str(settings.api_keys)
    assert "topsecret" not in str(settings.backends)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://u:secret@h:6379/1", "redis://h:6379/1"),
        ("redis+sentinel://:secret@a:1,b:2/main/0", "redis+sentinel://a:1,b:2/main/0"),
        ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
        ("rediss://h", "rediss://h"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown

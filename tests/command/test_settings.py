"""Every setting by flag, environment and file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from buffer.setting_sources import flag_of, key_of, load_settings, variable_of
from buffer.setting_values import hashed
from buffer.settings import Settings
from tests.command.settings_rig import BACKEND, by_flags, write_file

MODEL = {"name": "qwen3*", "think": "off", "aliases": {"-nothink": "off"}}
SAMPLES: dict[str, tuple[str, object, object]] = {
    "redis_url": ("redis://db:6379/1", "redis://db:6379/1", "redis://db:6379/1"),
    "host": ("0.0.0.0", "0.0.0.0", "0.0.0.0"),
    "port": ("12000", 12000, 12000),
    "processes": ("3", 3, 3),
    "backends": (json.dumps([BACKEND]), [BACKEND], None),
    "window_ms": ("12.5", 12.5, 12.5),
    "window_policy": ("fixed", "fixed", "fixed"),
    "batch_size": ("4", 4, 4),
    "max_in_flight": ("6", 6, 6),
    "max_wait_seconds": ("30", 30, 30.0),
    "queue_limit": ("50", 50, 50),
    "refuse_wait_seconds": ("45", 45, 45.0),
    "queue_timeout_seconds": ("60", 60, 60.0),
    "max_attempts": ("1", 1, 1),
    "lease_seconds": ("2.5", 2.5, 2.5),
    "connect_timeout_seconds": ("1", 1, 1.0),
    "first_token_timeout_seconds": ("10", 10, 10.0),
    "stall_timeout_seconds": ("11", 11, 11.0),
    "breaker_failures": ("5", 5, 5),
    "breaker_cooldown_seconds": ("7", 7, 7.0),
    "resume": ("off", False, False),
    "cache": ("on", True, True),
    "cache_ttl_seconds": ("60", 60, 60.0),
    "cache_max_bytes": ("1000000", 1000000, 1000000),
    "cache_per_user": ("on", True, True),
    "single_flight": ("off", False, False),
    "api_keys": ("ann:secret", [{"name": "ann", "key": "secret"}], None),
    "allow_image_urls": ("on", True, True),
    "cors_origins": ("https://a.example, app://*", ["https://a.example", "app://*"], ["https://a.example", "app://*"]),
    "max_held_bytes": ("1000", 1000, 1000),
    "max_body_bytes": ("1000", 1000, 1000),
    "drain_seconds": ("0", 0, 0.0),
    "log_level": ("DEBUG", "debug", "debug"),
    "log_format": ("json", "json", "json"),
    "metrics_port": ("9100", 9100, 9100),
    "fast_chars": ("50", 50, 50),
    "normal_chars": ("500", 500, 500),
    "fast_tokens": ("256", 256, 256),
    "normal_tokens": ("1024", 1024, 1024),
    "models": (json.dumps([MODEL]), [MODEL], None),
    "soft_switches": ("on", True, True),
    "embedded": ("memory", "memory", "memory"),
    "workers": ("1..4", "1..4", "1..4"),
    "files": ("/srv/files", "/srv/files", "/srv/files"),
    "key_prefix": ("other", "other", "other"),
}
"""Setting → its text as a flag or in the environment, its value in the file, and what comes of both."""


def toml_of(value: object) -> str:
    """TOML's inline form of a sample."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    return json.dumps(value)


def check(name: str, settings: Settings) -> None:
    value = getattr(settings, name)
    if name == "backends":
        assert [(one.name, one.kind, one.url) for one in value] == [tuple(BACKEND.values())]
    elif name == "models":
        assert [(one.name, one.think, one.aliases) for one in value] == [tuple(MODEL.values())]
    elif name == "api_keys":
        assert [(one.name, one.key) for one in value] == [("ann", hashed(b"secret"))]
    else:
        assert value == SAMPLES[name][2]


def test_the_samples_are_of_all_settings() -> None:
    assert set(SAMPLES) == set(Settings.model_fields)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_setting_comes_by_flag(name: str) -> None:
    check(name, by_flags(flag_of(name), SAMPLES[name][0]))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_setting_comes_by_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable_of(name), SAMPLES[name][0])
    check(name, load_settings())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_setting_comes_by_file(name: str) -> None:
    write_file(f"{key_of(name)} = {toml_of(SAMPLES[name][1])}\n")
    check(name, load_settings())


def test_the_defaults() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert (settings.redis_url, settings.host, settings.port, settings.backends) == (None, "127.0.0.1", 11435, [])
    assert (settings.window_ms, settings.window_policy, settings.batch_size) == (50, "adaptive", 8)
    assert (settings.max_in_flight, settings.max_wait_seconds, settings.queue_limit) == ("auto", 60, 1000)
    assert (settings.resume, settings.cache, settings.single_flight) == (True, False, None)


def test_a_flag_wins_over_the_environment_and_that_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file("window_ms = 1\nbatch_size = 2\nqueue_limit = 3\n")
    monkeypatch.setenv("DOUBLEBUFFER_WINDOW_MS", "10")
    monkeypatch.setenv("DOUBLEBUFFER_BATCH_SIZE", "20")
    settings = by_flags("--window-ms", "100")
    assert (settings.window_ms, settings.batch_size, settings.queue_limit) == (100, 20, 3)


def test_a_layer_wins_a_setting_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file('[[backends]]\nname = "a"\nkind = "ollama"\nurl = "http://a"\nnum_ctx = 8192\n')
    monkeypatch.setenv("DOUBLEBUFFER_BACKENDS", json.dumps([BACKEND]))
    assert [(one.name, one.num_ctx) for one in load_settings().backends] == [("big", None)]


def test_tables_of_the_file() -> None:
    write_file(
        '[[backends]]\nname = "a"\nkind = "ollama"\nurl = "http://a:11434/"\nmodels = {small = "qwen3:0.6b"}\n'
        '[[backends]]\nname = "b"\nkind = "vllm"\nurl = "http://b"\nmax_in_flight = 4\n'
        '[[keys]]\nname = "ann"\nkey = "x:y"\nlanes = ["fast"]\ntrusted = true\n'
        f'[[keys]]\nname = "bob"\nkey = "{hashed(b"z")}"\nrequests_per_minute = 60\nshare = 0.25\n'
        "models = false\n"
    )
    settings = load_settings()
    assert [(one.url, one.models, one.max_in_flight) for one in settings.backends] == [
        ("http://a:11434", {"small": "qwen3:0.6b"}, None),
        ("http://b", {}, 4),
    ]
    ann, bob = settings.api_keys
    assert (ann.name, ann.key, ann.lanes, ann.trusted) == ("ann", hashed(b"x:y"), ["fast"], True)
    assert (ann.requests_per_minute, ann.share) == (None, None)
    assert (bob.key, bob.requests_per_minute, bob.share) == (hashed(b"z"), 60, 0.25)
    assert (ann.models, bob.models) == (True, False)


def test_the_file_is_where_config_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.toml"
    other.write_text("batch_size = 5\n")
    write_file("batch_size = 6\n")
    assert load_settings().batch_size == 6
    assert by_flags("--config", str(other)).batch_size == 5
    monkeypatch.setenv("DOUBLEBUFFER_CONFIG", str(other))
    assert load_settings().batch_size == 5


def test_spellings_of_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "OLLAMA_API_BASE_URL": "http://ollama:11434/api",
        "VLLM_BASE_URL": "http://vllm:8000/v1/",
        "RATE_LIMIT_WINDOW": "50ms",
        "RATE_LIMIT_BATCH_SIZE": "16",
        "USE_REDIS_QUEUE": "false",
        "REDIS_URL": "redis://somewhere",
    }.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert [(one.name, one.kind, one.url) for one in settings.backends] == [
        ("ollama", "ollama", "http://ollama:11434"),
        ("vllm", "vllm", "http://vllm:8000"),
    ]
    assert (settings.window_ms, settings.batch_size, settings.redis_url) == (50, 16, None)


@pytest.mark.parametrize(("text", "milliseconds"), [("50ms", 50), ("0.2s", 200), ("20", 20), ("500us", 0.5)])
def test_a_window_as_a_duration(text: str, milliseconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATE_LIMIT_WINDOW", text)
    assert load_settings().window_ms == milliseconds


def test_our_own_names_win_over_other_spellings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATE_LIMIT_WINDOW", "1s")
    monkeypatch.setenv("DOUBLEBUFFER_WINDOW_MS", "7")
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://a")
    monkeypatch.setenv("DOUBLEBUFFER_BACKENDS", json.dumps([BACKEND]))
    settings = load_settings()
    assert settings.window_ms == 7
    assert [one.name for one in settings.backends] == ["big"]


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLEBUFFER_WINDOW_MS", "")
    monkeypatch.setenv("REDIS_URL", " ")
    settings = load_settings()
    assert (settings.window_ms, settings.redis_url) == (50, None)


def test_settings_made_by_hand_read_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOUBLEBUFFER_WINDOW_MS", "1")
    write_file("batch_size = 1\n")
    assert (Settings(port=0).window_ms, Settings(port=0).batch_size) == (50, 8)
    with pytest.raises(ValidationError):
        Settings(window=1)  # type: ignore[call-arg]

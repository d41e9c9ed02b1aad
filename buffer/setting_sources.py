"""Where settings come from: flags over environment over ``doublebuffer.toml`` over defaults.

Also the spellings of other programs, so that a recipe written for them works unchanged, and the sentence that names the
setting when a value is wrong or a name unknown.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from buffer.backend import BackendSpec
from buffer.setting_values import check_http_url
from buffer.settings import Settings

CONFIG_FILE = "doublebuffer.toml"
CONFIG_VARIABLE = "DOUBLEBUFFER_CONFIG"
PREFIX = "DOUBLEBUFFER_"

_NOT_SHOWN = frozenset({"redis_url", "backends", "api_keys", "models"})
"""Values that hold a secret, or are too long for a sentence."""
_DURATION = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s)?$")
_IN_MS = {"us": 0.001, "ms": 1.0, None: 1.0, "s": 1000.0}


class SettingsError(Exception):
    """A setting that cannot be used. ``str()`` is one sentence that names it; it holds no key or password."""


def flag_of(name: str) -> str:
    """``window_ms`` → ``--window-ms``."""
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """``window_ms`` → ``DOUBLEBUFFER_WINDOW_MS``; ``redis_url`` → ``REDIS_URL``."""
    return "REDIS_URL" if name == "redis_url" else PREFIX + name.upper()


def key_of(name: str) -> str:
    """The name's key in the file."""
    return "keys" if name == "api_keys" else name


Values = dict[str, tuple[Any, str]]
"""Name of a setting → its raw value, and the spelling that the operator used."""


def load_settings(flags: Mapping[str, str] | None = None, *, config: str | None = None) -> Settings:
    """Settings from everywhere. ``flags``: raw text by name of the setting; ``config``: path of a file that must exist.

    Raises ``SettingsError``.
    """
    given: Values = {name: (value, flag_of(name)) for name, value in (flags or {}).items()}
    environment = read_environment(os.environ)
    file = read_file(config or os.environ.get(CONFIG_VARIABLE) or None)

    class FromEverywhere(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(_Layer(settings_cls, values) for values in (given, environment, file))

    try:
        return Settings.model_construct(**dict(FromEverywhere()))
    except ValidationError as error:
        raise SettingsError(_sentence(error, file | environment | given)) from None


class _Layer(PydanticBaseSettingsSource):
    """One layer's raw values. The first layer that has a setting wins it whole: tables are not merged."""

    def __init__(self, settings_cls: type[BaseSettings], values: Values) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._values[field_name][0], field_name, False

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, (value, _) in self._values.items() if name not in self.current_state}


def read_environment(environ: Mapping[str, str]) -> Values:
    """Raw values of the environment. Our own names win over other programs'; an empty variable counts as unset."""
    fields = {variable_of(name): name for name in Settings.model_fields}
    values = _other_spellings(environ)
    for variable, text in environ.items():
        if variable in fields:
            if text.strip() and not (variable == "REDIS_URL" and "redis_url" in values):
                values[fields[variable]] = (text, variable)
        elif variable.startswith(PREFIX) and variable != CONFIG_VARIABLE:
            raise SettingsError(f"{variable} is no setting of Doublebuffer{_meant(variable, fields)}.")
    return values


def _other_spellings(environ: Mapping[str, str]) -> Values:
    values: Values = {}
    backends: dict[str, tuple[BackendSpec, str]] = {}
    for variable, kind, suffix in (
        ("OLLAMA_BASE_URL", "ollama", "/api"),
        ("OLLAMA_API_BASE_URL", "ollama", "/api"),
        ("VLLM_BASE_URL", "vllm", "/v1"),
    ):
        url = environ.get(variable, "").strip().rstrip("/").removesuffix(suffix)
        if not url:
            continue
        try:
            check_http_url(url, variable)
        except ValueError as error:
            raise SettingsError(f"{error}.") from None
        earlier = backends.get(kind)
        if earlier and earlier[0].url != url:
            raise SettingsError(f"{earlier[1]} and {variable} name two addresses for one Ollama; set one of them.")
        backends[kind] = (BackendSpec(name=kind, kind=kind, url=url), variable)  # type: ignore[arg-type]
    if backends:
        spelled = " and ".join(variable for _, variable in backends.values())
        values["backends"] = ([spec for spec, _ in backends.values()], spelled)
    if window := environ.get("RATE_LIMIT_WINDOW", "").strip():
        match = _DURATION.match(window)
        if not match:
            raise SettingsError(f"RATE_LIMIT_WINDOW is a time such as 50ms, and {window!r} is none.")
        values["window_ms"] = (float(match[1]) * _IN_MS[match[2]], "RATE_LIMIT_WINDOW")
    if size := environ.get("RATE_LIMIT_BATCH_SIZE", "").strip():
        values["batch_size"] = (size, "RATE_LIMIT_BATCH_SIZE")
    if use := environ.get("USE_REDIS_QUEUE", "").strip().lower():
        if use in {"false", "0", "no", "off"}:
            values["redis_url"] = (None, "USE_REDIS_QUEUE")
        elif use not in {"true", "1", "yes", "on"}:
            raise SettingsError(f"USE_REDIS_QUEUE is true or false, and {use!r} is neither.")
        elif not environ.get("REDIS_URL", "").strip():
            raise SettingsError("USE_REDIS_QUEUE is true, so REDIS_URL has to say where Redis is.")
    return values


def read_file(path: str | None) -> Values:
    """Raw values of the file: the one named, or ``doublebuffer.toml`` here if there is one."""
    file = Path(path or CONFIG_FILE)
    if path is None and not file.is_file():
        return {}
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"--config: {file} cannot be read: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is no TOML: {error}.") from None
    if "keys" in table and "api_keys" in table:
        raise SettingsError(f"keys and api_keys in {file} are two spellings of one setting; use one of them.")
    fields = {key_of(name): name for name in Settings.model_fields} | {"api_keys": "api_keys"}
    for key in table:
        if key not in fields:
            raise SettingsError(f"{key} in {file} is no setting of Doublebuffer{_meant(key, fields)}.")
    return {fields[key]: (value, f"{key} in {file}") for key, value in table.items()}


def _meant(name: str, known: Mapping[str, object]) -> str:
    if name == f"{PREFIX}REDIS_URL":
        return "; REDIS_URL is"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; {near[0]} is" if near else ""


def _sentence(error: ValidationError, values: Values) -> str:
    """The first complaint as one sentence that names the setting as the operator spelled it."""
    first = error.errors(include_url=False, include_context=False)[0]
    reason = first["msg"].removeprefix("Value error, ").rstrip(".")
    if not first["loc"]:
        return f"{reason}."
    name = str(first["loc"][0])
    value, spelled = values.get(name, (None, name))
    setting = "" if spelled.endswith(variable_of(name)) else f" ({variable_of(name)})"
    if first["type"] in {"literal_error", "int_parsing"} and name == "max_in_flight":
        reason = "it is a whole number above 0, or auto"
    verdict = "cannot be used" if name in _NOT_SHOWN else f"cannot be {value!r}"
    return f"{spelled}{setting} {verdict}: {reason.replace('Input should', 'it should')}."

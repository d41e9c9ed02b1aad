"""Every setting: its name, default, bounds and meaning. Where the values come from is ``setting_sources``' business.

``Settings(...)`` takes its arguments and nothing else, so that a test means what it says; ``load_settings`` also reads
the environment and ``doublebuffer.toml``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainValidator, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from buffer.backend import BackendSpec
from buffer.job import Lane
from buffer.model_records import ModelRecord
from buffer.setting_values import (
    OLLAMA_ORIGINS,
    ApiKey,
    parse_api_keys,
    parse_backends,
    parse_list,
    parse_models,
    parse_refuse_wait,
)
from buffer.store_url import check_redis_url
from buffer.worker_range import check_worker_range

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65_535)]

_SWITCHES = frozenset({"resume", "cache", "cache_per_user", "single_flight", "allow_image_urls", "soft_switches"})


class Settings(BaseSettings):
    """All settings of all commands, checked. Raises ``pydantic.ValidationError``."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        validate_default=False,
        str_strip_whitespace=True,
    )

    redis_url: Annotated[str | None, BeforeValidator(check_redis_url)] = Field(
        default=None,
        repr=False,
        description="Where Redis is: `redis://`, `rediss://`, `unix://`, `redis+sentinel://` or `redis+cluster://`. "
        "Unset: the embedded store, for `doublebuffer up` only.",
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address that the gateway listens on.")
    port: Port = Field(default=11435, description="Port that the gateway listens on; 0 picks a free one.")
    processes: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="Gateway processes that share the port."
    )
    backends: Annotated[list[BackendSpec], PlainValidator(parse_backends)] = Field(
        default_factory=list,
        repr=False,
        description="The engines, as a JSON list; in the file one `[[backends]]` table each. Unset: `up` looks for "
        "Ollama, vLLM and llama.cpp on their usual local ports.",
    )
    window_ms: Annotated[float, Field(ge=0, le=60_000)] = Field(
        default=50.0, description="Longest time in milliseconds that a job waits for companions; 0 for none."
    )
    window_policy: Literal["adaptive", "fixed"] = Field(
        default="adaptive",
        description="`adaptive` ends the wait once it cannot help any more; `fixed` never cuts it short.",
    )
    batch_size: Count = Field(default=8, description="Most jobs that go to a back end as one batch.")
    max_in_flight: Literal["auto"] | Count = Field(
        default="auto",
        description="Jobs at one back end at a time, over all workers; `auto` goes by what the engine tells.",
    )
    max_wait_seconds: Seconds = Field(
        default=60.0,
        description="How much later than a waiting job another may have come and still be served before it.",
    )
    queue_limit: Count = Field(
        default=1000, description="Chats that may wait; with so many waiting, new ones are refused."
    )
    refuse_wait_seconds: Annotated[Seconds | dict[Lane, Seconds], BeforeValidator(parse_refuse_wait)] = Field(
        default=120.0,
        description="Refuse a chat whose predicted wait is longer: one number, or a JSON object by lane; a lane that "
        "it does not name is never refused for it.",
    )
    queue_timeout_seconds: Seconds = Field(
        default=120.0, description="A job not started after this time ends with an error."
    )
    max_attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="Tries at back ends before a job fails; 1 is no retry."
    )
    lease_seconds: Seconds = Field(
        default=15.0, description="A worker silent for this long loses its jobs to the others."
    )
    connect_timeout_seconds: Seconds = Field(
        default=3.0, description="Longest wait for a back end to take a connection."
    )
    first_token_timeout_seconds: Seconds = Field(default=300.0, description="Longest wait for an answer's first piece.")
    stall_timeout_seconds: Seconds = Field(default=60.0, description="Longest pause inside an answer.")
    breaker_failures: Count = Field(default=3, description="Failures in a row that open a back end's circuit breaker.")
    breaker_cooldown_seconds: Seconds = Field(
        default=10.0, description="How long an open breaker stays open before a trial."
    )
    resume: bool = Field(
        default=True,
        description="Continue a broken answer on another attempt where the back end can (vLLM, Ollama, llama.cpp). "
        "Off: one that breaks after its first word ends with an error.",
    )
    cache: bool = Field(
        default=False,
        description="Keep answers for whoever asks the same again: those without thinking or tools that would come out "
        "the same once more (temperature 0, or a seed).",
    )
    cache_ttl_seconds: Seconds = Field(default=300.0, description="Lifetime of a kept answer.")
    cache_max_bytes: Count = Field(
        default=67_108_864,
        description="Bytes in Redis that kept answers may take together, whatever else is there; the oldest go first.",
    )
    cache_per_user: bool = Field(default=False, description="No user gets an answer that another asked for.")
    single_flight: bool | None = Field(
        default=None,
        description="Requests that ask the same at the same time, as the cache has it, become one job. Unset: as "
        "`cache`.",
    )
    api_keys: Annotated[list[ApiKey], PlainValidator(parse_api_keys)] = Field(
        default_factory=list,
        repr=False,
        description="Comma-separated `name:key`; set, all but the health routes ask for one. In the file: `[[keys]]`.",
    )
    allow_image_urls: bool = Field(
        default=False,
        description="Hand http(s) image links on to the engine, which then fetches them; off refuses them.",
    )
    cors_origins: Annotated[list[str], BeforeValidator(parse_list)] = Field(
        default_factory=lambda: list(OLLAMA_ORIGINS),
        description="Comma-separated origins whose pages may call; `*` is any text. Unset: those Ollama allows.",
    )
    max_body_bytes: Count = Field(default=104_857_600, description="Larger request bodies are refused with 413.")
    max_held_bytes: Count = Field(
        default=1_073_741_824,
        description="Bytes of request bodies that a gateway process holds at a time, each until it is answered; what "
        "comes beyond is refused with 503. One body always fits.",
    )
    drain_seconds: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=30.0, description="After SIGTERM, how long running jobs may take to finish before they are handed back."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged."
    )
    log_format: Literal["text", "json"] = Field(default="text", description="Form of a log line.")
    metrics_port: Port = Field(default=0, description="Port of a worker's or batch worker's `/metrics`; 0 for none.")
    fast_chars: Count = Field(default=100, description="A newest message shorter than this may be `fast`.")
    normal_chars: Count = Field(default=2000, description="A newest message shorter than this may be `normal`.")
    fast_tokens: Count = Field(
        default=512, description="Up to so many prompt tokens to read anew, a chat may be `fast`."
    )
    normal_tokens: Count = Field(
        default=4096, description="Up to so many prompt tokens to read anew, a chat may be `normal`."
    )
    models: Annotated[list[ModelRecord], PlainValidator(parse_models)] = Field(
        default_factory=list,
        description="How models think, how they are sampled and what else they are called, as a JSON list; in the file "
        "one `[[models]]` table each. Unset: as their names tell.",
    )
    soft_switches: bool = Field(
        default=False,
        description="Let `/think` and `/no_think` in a chat decide whether the model thinks, where nothing else does; "
        "off leaves them to the model.",
    )
    embedded: Literal["auto", "memory"] = Field(
        default="auto",
        description="What `up` uses without REDIS_URL. `auto`: a redis-server or valkey-server of its own where one is "
        "installed, 6.2 or newer, which costs a tenth; `memory`: the queue is in its own memory.",
    )
    workers: Annotated[str, BeforeValidator(check_worker_range)] = Field(
        default="1",
        description="Workers of `up`: a number, or a range such as `1..4`, of which more are started while jobs wait "
        "that no worker has hands for.",
    )
    files: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for uploaded files and for the results of offline batches, shared by all gateways and "
        "batch workers. Unset: Redis keeps them, 16 MB a file and 64 MB in all.",
    )
    key_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = Field(
        default="doublebuffer", description="First part of every key in Redis, for several installations on one server."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: object, info: ValidationInfo) -> object:
        """Blanks and case of a word mean nothing; yes and no are no numbers."""
        if isinstance(value, bool) and info.field_name not in _SWITCHES:
            raise ValueError("true and false are no values for it")
        if isinstance(value, str) and info.field_name in {"window_policy", "max_in_flight", "log_level", "log_format"}:
            return value.strip().lower()
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Settings:
        if self.fast_chars > self.normal_chars:
            raise ValueError(
                "DOUBLEBUFFER_FAST_CHARS is above DOUBLEBUFFER_NORMAL_CHARS: what is fast must be normal too"
            )
        if self.fast_tokens > self.normal_tokens:
            raise ValueError(
                "DOUBLEBUFFER_FAST_TOKENS is above DOUBLEBUFFER_NORMAL_TOKENS: what is fast must be normal too"
            )
        return self

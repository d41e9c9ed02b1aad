"""``docs/settings.md``, made from the settings themselves: ``python -m doublebuffer.settings_page``."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from buffer.setting_sources import flag_of, key_of, variable_of
from buffer.settings import Settings

_HEAD = """# Settings

Each setting is a flag of every command, an environment variable, and a key of `doublebuffer.toml`. A flag wins over the
environment, the environment over the file, the file over the default; a setting is taken whole from the one that wins.
The file is `./doublebuffer.toml`, or the one that `--config` or `DOUBLEBUFFER_CONFIG` names. An empty variable counts
as unset. A name that is none and a value that cannot be used end a command with exit code 2 and one sentence that names
the setting; to `doublebuffer doctor` they are findings, and it ends with 1. This page is made from the code
(`make docs`).

| environment | flag | key | default | meaning |
| --- | --- | --- | --- | --- |
"""

_TAIL = """
## Back ends

`DOUBLEBUFFER_BACKENDS` is a JSON list; in the file each back end is a table:

```toml
[[backends]]
name = "big"                      # yours to choose; metrics and headers show it
kind = "vllm"                     # vllm, ollama, llamacpp, or openai for anything else that speaks OpenAI's API
url = "http://10.0.0.5:8000"      # without /v1 or /api
api_key = "..."                   # sent to this back end, never shown
max_in_flight = 32                # in place of DOUBLEBUFFER_MAX_IN_FLIGHT
kv_tokens = 39000                 # tokens its cache holds, where it does not tell
num_ctx = 8192                    # Ollama: the context length that every request asks for
pool = "default"                  # workers and queues of one pool keep to themselves
fallback_for = ["gpu"]            # works only where those of these names that serve the model cannot
start = ["llama-server", "-m", "/models/qwen3.gguf", "--port", "8081"]   # a spare: started when it is needed;
stop = ["systemctl", "stop", "x"] # how it is stopped, where the process of start is not the engine's own
scale = "llm/vllm"                # or in Kubernetes: its Deployment, as namespace/name or name
start_above_seconds = 30          # the predicted wait that starts it
idle_stop_seconds = 600           # so long without work it is stopped
start_timeout_seconds = 300       # by then it has to answer

[backends.models]                 # name for clients = name upstream, beside those it lists
"qwen3:14b" = "Qwen/Qwen3-14B-FP8"
```

One with `fallback_for` takes no job in normal times. It takes all jobs of a model while each back end of these names
that serves it is down or has its breaker open, and single jobs that one of them has just failed. They may be other
workers'; it serves the model under the same client's name, if need be by its `models`. Its answers carry
`X-Doublebuffer-Fallback` with the name of the back end stood in for.

One with `start` or `scale` is a spare, and `models` has to name what it serves: [elastic back ends](elastic.md).

## Keys

```toml
[[keys]]
name = "open-webui"
key = "..."                       # or "sha256:" and the 64 digits that printf %s "$KEY" | sha256sum begins with
lanes = ["thinking", "fast"]      # lanes above a chat's own that it may choose
trusted = true                    # its X-OpenWebUI-User-Id counts
models = false                    # it may not bring models to an Ollama, or remove them
requests_per_minute = 600         # POST requests in any minute, over all gateways; more get 429
share = 0.5                       # of a back end's places in flight, while others wait
admin = true                      # on /dashboard it sees how requests of other keys stand, never what they say;
                                  # and it may have kept answers forgotten
```

Whatever is given, only the hash is kept. [Security](security.md) tells what keys protect, and what not.

## Models

`DOUBLEBUFFER_MODELS` is a JSON list; in the file each record is a table. A model's name usually tells all of this, so a
record is for names that say nothing, for other defaults, and for names that ask for something. The first record whose
name fits decides; what it leaves out stays as the model's name tells. Gateway and worker both read it.

```toml
[[models]]
name = "qwen3*"                   # in any spelling; * is any text; "Qwen/qwen3*" looks at the organisation too
think = "off"                     # for chats that ask nothing themselves: on, off, low, medium, high, max
list_aliases = true               # model lists show the names below too
cache = false                     # its answers are kept, or not, whatever DOUBLEBUFFER_CACHE says

[models.aliases]                  # "qwen3:14b-nothink" is "qwen3:14b", asked not to think
"-nothink" = "off"
"-thinking" = "on"

[models.sampling.thinking]        # for what a client leaves unset, where the engine is not Ollama
temperature = 0.6
top_p = 0.95

[[models]]
name = "acme/reasoner-*"
thinks = "hybrid"                 # never, always, or hybrid: it can be told
default = "on"                    # what it does when nobody tells
switch = "enable_thinking"        # its template's variable: enable_thinking or thinking; effort; none
tags = ["<think>", "</think>"]    # round its thinking, where the engine leaves them in; [] for none
prompt_opens = false              # its template writes the first of them
effort_words = { low = "low", medium = "medium", high = "high", max = "high" }
system_first = false              # its template refuses a system message that is not the first
```

`sampling = {}` switches off the profile that Qwen3's makers advise. [Models](models.md) tells how a request's wish is
found.

## Other spellings

So that recipes made for other programs work as they are. Where both are set, Doublebuffer's own names win.

| variable | meaning |
| --- | --- |
| `OLLAMA_BASE_URL`, `OLLAMA_API_BASE_URL` | one back end of kind `ollama`; a trailing `/api` is dropped |
| `VLLM_BASE_URL` | one back end of kind `vllm`; a trailing `/v1` is dropped |
| `RATE_LIMIT_WINDOW` | `DOUBLEBUFFER_WINDOW_MS` as a time: `50ms`, `0.1s`; a bare number is milliseconds |
| `RATE_LIMIT_BATCH_SIZE` | `DOUBLEBUFFER_BATCH_SIZE` |
| `USE_REDIS_QUEUE` | `false`: the embedded store, whatever `REDIS_URL` says |
"""


def settings_page() -> str:
    rows = "".join(_row(name, field) for name, field in Settings.model_fields.items())
    return _HEAD + rows + _TAIL


def _row(name: str, field: FieldInfo) -> str:
    meaning = (field.description or "").replace("|", "\\|")
    return f"| `{variable_of(name)}` | `{flag_of(name)}` | `{key_of(name)}` | {_default(name, field)} | {meaning} |\n"


def _default(name: str, field: FieldInfo) -> str:
    if name == "cors_origins":
        return "Ollama's"
    value = field.get_default(call_default_factory=True)
    if value is None or value == []:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)


if __name__ == "__main__":
    print(settings_page(), end="")

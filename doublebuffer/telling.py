"""The first lines: what a command is running on, and what to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from buffer.load import BackendState
from buffer.setting_values import ApiKey, names, without_password
from buffer.settings import Settings
from doublebuffer import VERSION
from doublebuffer.discovery import PLACES
from doublebuffer.private import MARK
from doublebuffer.starting import Seen
from doublebuffer.top_paper import plain
from gateway.models import merge

_SHOWN_MODELS = 8
_SHOWN_KEYS = 3


def banner(settings: Settings, url: str, seen: Sequence[Seen], *, simulated: bool) -> str:
    """What ``up`` says once it serves."""
    if simulated:
        first = (
            f"Doublebuffer {VERSION} runs on its SIMULATED back end, whose answers mean nothing: "
            f"no {names([place.title for place in PLACES]).replace(' and ', ' or ')} was found on this machine."
        )
    else:
        first = f"Doublebuffer {VERSION} runs on {names([one.spec.name for one in seen])}."
    models = _names(seen)
    lines = [
        first,
        f"  address    {url}  (Ollama's API under /api, OpenAI's under /v1)",
        f"  dashboard  {url}/dashboard",
        f"  store      {store_line(settings)}",
        *back_end_lines(seen),
        f"  models     {_some(models) or 'none yet'}",
    ]
    if models:
        body = json.dumps({"model": models[0], "messages": [{"role": "user", "content": "Hello"}]})
        key = ' -H "x-api-key: $KEY"' if settings.api_keys else ""
        lines.append(f"  try        curl -s {url}/v1/chat/completions{key} -d {shlex.quote(body)}")
        if key:
            lines.append(f"             KEY is the key of {_either(settings.api_keys)}")
    return "\n".join(map(plain, lines))


def store_line(settings: Settings) -> str:
    if settings.redis_url is None:
        return "embedded, in this process's memory (REDIS_URL is unset)"
    if MARK in settings.redis_url:
        return "embedded, in a Redis of its own that keeps nothing on a disk (REDIS_URL is unset)"
    return without_password(settings.redis_url)


def back_end_lines(seen: Sequence[Seen]) -> list[str]:
    return [
        f"  back end   {one.spec.name} ({one.spec.kind}) at {without_password(one.spec.url)}"
        + ("" if one.probe is not None else ", started when it is needed" if one.spec.spare else _away(one))
        for one in seen
    ]


def _away(one: Seen) -> str:
    return f", not answering yet: {one.trouble}"


def _names(seen: Sequence[Seen]) -> list[str]:
    """Each model once, as the model lists name it, however many back ends serve it, in whatever spelling."""
    states = [
        BackendState(
            name=one.spec.name,
            kind=one.spec.kind,
            up=one.probe is not None,
            models=list(one.probe.models) if one.probe else [],
            aliases=one.spec.models,
        )
        for one in seen
    ]
    models = merge([(one.spec.pool, state) for one, state in zip(seen, states, strict=True)], 1)
    found = (models.find(name) for one in seen for name in one.models())
    return list(dict.fromkeys(model.name for model in found if model is not None))


def _either(keys: Sequence[ApiKey]) -> str:
    shown = [key.name for key in keys[:_SHOWN_KEYS]]
    return names(shown).replace(" and ", " or ") if len(keys) <= _SHOWN_KEYS else f"{', '.join(shown)} or another"


def _some(models: Sequence[str]) -> str:
    more = len(models) - _SHOWN_MODELS
    return ", ".join(models[:_SHOWN_MODELS]) + (f" and {more} more" if more > 0 else "")

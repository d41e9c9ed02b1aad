"""The first lines: what a command is running on, and what to try."""

from __future__ import annotations

import json
from collections.abc import Sequence

from buffer.setting_values import names, without_password
from buffer.settings import Settings
from doublebuffer import VERSION
from doublebuffer.discovery import PLACES
from doublebuffer.starting import Seen

_SHOWN_MODELS = 8


def banner(settings: Settings, url: str, seen: Sequence[Seen], *, simulated: bool) -> str:
    """What ``up`` says once it serves."""
    if simulated:
        first = (
            f"Doublebuffer {VERSION} runs on its SIMULATED back end, whose answers mean nothing: "
            f"no {names([place.title for place in PLACES]).replace(' and ', ' or ')} was found on this machine."
        )
    else:
        first = f"Doublebuffer {VERSION} runs on {names([one.spec.name for one in seen])}."
    models = [model for one in seen for model in one.models()]
    lines = [
        first,
        f"  address    {url}  (Ollama's API under /api, OpenAI's under /v1)",
        f"  store      {store_line(settings)}",
        *back_end_lines(seen),
        f"  models     {_some(models) or 'none yet'}",
    ]
    if models:
        body = json.dumps({"model": models[0], "messages": [{"role": "user", "content": "Hello"}]})
        lines.append(f"  try        curl -s {url}/v1/chat/completions -d '{body}'")
    return "\n".join(lines)


def store_line(settings: Settings) -> str:
    if settings.redis_url is None:
        return "embedded, in this process's memory (REDIS_URL is unset)"
    return without_password(settings.redis_url)


def back_end_lines(seen: Sequence[Seen]) -> list[str]:
    return [
        f"  back end   {one.spec.name} ({one.spec.kind}) at {without_password(one.spec.url)}"
        + (f", not answering yet: {one.trouble}" if one.probe is None else "")
        for one in seen
    ]


def _some(models: Sequence[str]) -> str:
    more = len(models) - _SHOWN_MODELS
    return ", ".join(models[:_SHOWN_MODELS]) + (f" and {more} more" if more > 0 else "")

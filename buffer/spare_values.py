"""How a spare back end may be started and stopped: what is checked of its settings. Pure."""

from __future__ import annotations

import re

from buffer.backend import BackendSpec

_DEPLOYMENT = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?/)?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LONGEST_S = 86_400.0


def check_spare(spec: BackendSpec) -> None:
    """Raises ``ValueError`` with a clause that says what is wrong."""
    title = f"back end {spec.name!r}"
    if spec.start and spec.scale:
        raise ValueError(f"{title} has both start and scale: it is started by one of them")
    if spec.stop and not spec.start:
        raise ValueError(f"{title} has stop and no start")
    for field in ("start", "stop"):
        command = getattr(spec, field)
        if command and (not command[0].strip() or any("\0" in part for part in command)):
            raise ValueError(f"{title} has a {field} that names no program")
    if spec.scale and not _DEPLOYMENT.fullmatch(spec.scale):
        raise ValueError(f"{title} has a scale that is no Deployment's name, or namespace/name")
    if spec.spare and not spec.models:
        raise ValueError(f"{title} is started when its models are asked for, so models has to name them")
    for field in ("start_above_seconds", "idle_stop_seconds", "start_timeout_seconds"):
        if not 0 < getattr(spec, field) <= _LONGEST_S:
            raise ValueError(f"{title} has {field} that are not above 0 and at most {_LONGEST_S:g}")

"""Model names: many spellings, one model. Pure.

``qwen3:14b-fp8``, ``qwen3-14b-fp8`` and ``Qwen/Qwen3-14B-FP8`` are one model; ``other`` is not ``other:7b``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HOSTS = (
    "hf.co/",
    "huggingface.co/",
    "registry.ollama.ai/library/",
    "registry.ollama.ai/",
    "ollama.com/library/",
    "ollama.com/",
)
_SEPARATORS = re.compile(r"[:_\s]+")
_DASHES = re.compile(r"-{2,}")


class ModelKey(NamedTuple):
    """A name taken apart for comparing. ``org`` is empty where the name gives none."""

    org: str
    tail: str


def model_key(name: str) -> ModelKey:
    """The parts of a model's name that tell models apart.

    Lower case, host and ``:latest`` dropped, ``:``, ``_`` and blanks as ``-``.
    """
    key = name.strip().lower()
    key = re.sub(r"^[a-z]+://", "", key)
    for host in _HOSTS:
        if key.startswith(host):
            key = key[len(host) :]
            break
    head, _, tail = key.rpartition("/")
    org = head.rpartition("/")[2]
    tail = tail.removesuffix(":latest")
    tail = _DASHES.sub("-", _SEPARATORS.sub("-", tail)).strip("-")
    return ModelKey("" if org == "library" else org, tail)


def queue_names(served: str) -> tuple[str, str]:
    """The queues that a back end serving ``served`` may take jobs from: by the bare name, and by organisation and name.

    A gateway submits under the bare name unless two organisations have a model of that name.
    """
    org, tail = model_key(served)
    return tail, f"{org}/{tail}"

"""``/think`` and ``/no_think`` in a chat's own words, as Qwen3's models were trained to take them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from buffer.job import Message, Think

_CODE = re.compile(r"(?ms)^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)|`[^`\n]*`")
"""Fenced or quoted; a fence that nobody closes goes on to the end."""
_SWITCH = re.compile(r"(?<![\w/])/(no_)?think(?![\w/])")


def soft_switch(messages: Iterable[Message]) -> Think:
    """What the last switch in the words of system and user asks. Those in code and in paths are none."""
    asked: Think = "unset"
    for message in messages:
        if message.role in {"system", "user"}:
            text = message.text()
            if "think" in text:
                for found in _SWITCH.finditer(_CODE.sub(" ", text)):
                    asked = "off" if found[1] else "on"
    return asked

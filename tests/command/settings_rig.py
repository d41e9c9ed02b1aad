"""What the tests of the settings share."""

from __future__ import annotations

import argparse
from pathlib import Path

from buffer.settings import Settings
from doublebuffer.flags import add_setting_flags, settings_of

BACKEND = {"name": "big", "kind": "vllm", "url": "http://10.1.1.1:8000"}


def write_file(text: str) -> None:
    Path("doublebuffer.toml").write_text(text, encoding="utf-8")


def by_flags(*flags: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_setting_flags(parser)
    return settings_of(parser.parse_args(flags))

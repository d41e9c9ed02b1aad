"""A flag for every setting, made from the settings themselves."""

from __future__ import annotations

import argparse
from typing import get_args

from pydantic.fields import FieldInfo

from buffer.setting_sources import CONFIG_VARIABLE, flag_of, load_settings, variable_of
from buffer.settings import Settings


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """Adds ``--config`` and a flag for each setting. Values stay raw text: the settings check them."""
    group = parser.add_argument_group(
        "settings",
        "Each is also an environment variable and a key of doublebuffer.toml; a flag wins over the environment, and "
        "the environment over the file.",
    )
    group.add_argument(
        "--config", metavar="FILE", help=f"the settings file; unset: ./doublebuffer.toml, if there [{CONFIG_VARIABLE}]"
    )
    for name, field in Settings.model_fields.items():
        switch = is_switch(field)
        group.add_argument(
            flag_of(name),
            dest=f"setting_{name}",
            metavar="on|off" if switch else "VALUE",
            nargs="?" if switch else None,
            const="on" if switch else None,
            help=f"{field.description} [{variable_of(name)}]".replace("%", "%%"),
        )


def is_switch(field: FieldInfo) -> bool:
    return field.annotation is bool or bool in get_args(field.annotation)


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings of a parsed command line, the environment and the file. Raises ``SettingsError``."""
    given = {
        name: value for name in Settings.model_fields if (value := getattr(arguments, f"setting_{name}")) is not None
    }
    return load_settings(given, config=arguments.config)

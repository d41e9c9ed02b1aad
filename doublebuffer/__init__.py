"""The command: it may use every other part, and no other part uses it."""

from importlib.metadata import version

VERSION = version("doublebuffer")

"""Tools as agents' APIs offer them, in OpenAI's form."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, carried, decode, object_fields
from gateway.dialects.text import dump, quote

_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')


class Tool(NamedTuple):
    name: str
    raw: Raw
    """In OpenAI's form."""


def function_tool(fields: Fields, where: str, *, parameters: str, name: str = "") -> Tool:
    """``parameters``: what its dialect calls the schema. ``name``: instead of its own. Raises ``BadRequest``."""
    own = decode(fields["name"], _text, f"{where}.name", "a string") if "name" in fields else ""
    if not own:
        raise BadRequest(f"'{where}' must be a tool with a name.", param=f"{where}.name")
    out = [b'{"type":"function","function":{"name":', quote(name or own)]
    if "description" in fields:
        out += (b',"description":', quote(decode(fields["description"], _text, f"{where}.description", "a string")))
    schema = fields.get(parameters, _NO_PARAMETERS)
    object_fields(schema, f"{where}.{parameters}")
    out += (b',"parameters":', bytes(carried(schema, f"{where}.{parameters}")))
    if "strict" in fields:
        out += (b',"strict":', dump(decode(fields["strict"], _flag, f"{where}.strict", "a boolean")))
    return Tool(name or own, Raw(b"".join([*out, b"}}"])))


def choice_of(name: str) -> Raw:
    """The choice of one tool, in OpenAI's form."""
    return Raw(b'{"type":"function","function":{"name":%b}}' % quote(name))


def only_foreign(kinds: list[str]) -> BadRequest:
    """What to say to a request none of whose tools the model can be offered."""
    shown = ", ".join(sorted(set(kinds))).encode("ascii", "backslashreplace").decode()[:200]
    return BadRequest(f"None of the tools can be offered here; their types are: {shown}.", param="tools")

"""A value that fits a JSON schema, for tool calls and structured answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

WORD = "simulated"
_DEPTH = 8


def instance_of(schema: object, depth: int = 0) -> object:
    """The plainest value of a schema: required properties only, lists as short as allowed.

    Keywords that it does not know are ignored.
    """
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return WORD
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    for word in ("anyOf", "oneOf", "allOf"):
        options = schema.get(word)
        if isinstance(options, list) and options:
            return instance_of(options[0], depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if kind == "object" or (kind is None and "properties" in schema):
        return _object_of(schema, depth)
    if kind == "array":
        least = schema.get("minItems")
        return [instance_of(schema.get("items"), depth + 1)] * (min(least, 16) if isinstance(least, int) else 0)
    if kind in ("integer", "number"):
        least = schema.get("minimum")
        return least if isinstance(least, int | float) else 0
    if kind == "boolean":
        return False
    if kind == "null":
        return None
    return WORD


def _object_of(schema: Mapping[str, object], depth: int) -> dict[str, object]:
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping):
        return {}
    names = required if isinstance(required, list) else list(properties)
    return {name: instance_of(properties.get(name), depth + 1) for name in names if isinstance(name, str)}

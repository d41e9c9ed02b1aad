"""Structured output, in each of the ways that clients ask for it."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from buffer.job import Format
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, carried, object_fields, plain, take_bool, wrong_type
from gateway.dialects.text import dump

_GUIDED = ("regex", "choice", "grammar")
_ASKS = frozenset({"response_format", "format", "structured_outputs", "guided_decoding_backend", "guided_json"}) | {
    f"guided_{kind}" for kind in _GUIDED
}
_text = msgspec.json.Decoder(str)


def take_ollama_format(fields: Fields) -> Format | None:
    """Ollama's ``format``: ``"json"`` or a JSON schema. Raises ``BadRequest``."""
    raw = fields.pop("format", None)
    if raw is None:
        return None
    if bytes(raw)[:1] == b"{":
        return Format("schema", carried(raw, "format"), "schema")
    word = plain(raw, "format")
    if word == "":
        return None
    if word != "json":
        shown = word[:40].encode("ascii", "backslashreplace").decode() if isinstance(word, str) else "neither"
        raise BadRequest(f'invalid format: "{shown}"; expected "json" or a valid JSON Schema object', param="format")
    return Format("json")


def take_openai_format(fields: Fields) -> Format | None:
    """``response_format``, Ollama's ``format``, and vLLM's ``structured_outputs`` and ``guided_*``, first hit first.

    What only vLLM can do (a regex, a choice, a grammar, a structural tag) stays in ``fields`` in the form that it reads
    today. Raises ``BadRequest``.
    """
    if _ASKS.isdisjoint(fields):
        return None
    found = _response_format(fields)
    native = take_ollama_format(fields)
    structured = _structured_outputs(fields)
    return found or native or structured


def _response_format(fields: Fields) -> Format | None:
    raw = fields.get("response_format")
    if raw is None:
        return None
    wanted = object_fields(raw, "response_format")
    kind = plain(wanted["type"], "response_format.type") if "type" in wanted else None
    if kind == "structural_tag":
        carried(raw, "response_format")
        return None
    del fields["response_format"]
    if kind == "text":
        return None
    if kind == "json_object":
        # llama.cpp's older form has the schema beside the type.
        return schema_format(wanted, "response_format") if "schema" in wanted else Format("json")
    if kind == "json_schema" and "json_schema" in wanted:
        return schema_format(
            object_fields(wanted["json_schema"], "response_format.json_schema"), "response_format.json_schema"
        )
    raise BadRequest(
        "Invalid value for 'response_format': expected type 'text', 'json_object', or 'json_schema' with a schema.",
        param="response_format",
    )


def schema_format(wanted: Fields, where: str) -> Format:
    """An object with ``schema``, ``name`` and ``strict``, found at ``where``. Raises ``BadRequest``."""
    schema = wanted.get("schema")
    if schema is None or bytes(schema)[:1] != b"{":
        raise wrong_type(f"{where}.schema", "an object")
    name = plain(wanted["name"], f"{where}.name") if "name" in wanted else "schema"
    if not isinstance(name, str):
        raise wrong_type(f"{where}.name", "a string")
    return Format("schema", carried(schema, f"{where}.schema"), name or "schema", take_bool(wanted, "strict"))


def _structured_outputs(fields: Fields) -> Format | None:
    wanted = (
        object_fields(fields.pop("structured_outputs"), "structured_outputs") if "structured_outputs" in fields else {}
    )
    # vLLM takes these older spellings without a word and leaves the output free.
    for kind in ("json", *_GUIDED):
        if (raw := fields.pop(f"guided_{kind}", None)) is not None:
            wanted.setdefault(kind, raw)
    fields.pop("guided_decoding_backend", None)
    schema = wanted.get("json")
    if schema is not None:
        if bytes(schema)[:1] == b'"':
            schema = Raw(_text.decode(schema).strip().encode("utf-8", "replace"))
            object_fields(schema, "structured_outputs.json")
        if bytes(schema)[:1] != b"{":
            raise wrong_type("structured_outputs.json", "a JSON schema")
        return Format("schema", carried(schema, "structured_outputs.json"), "schema")
    if "json_object" in wanted and plain(wanted["json_object"], "structured_outputs.json_object") is True:
        return Format("json")
    if wanted:
        fields["structured_outputs"] = carried(Raw(dump(wanted)), "structured_outputs")
    return None

"""Every way to ask a model to think, or not to, as one meaning.

A request may ask in several ways at once. The first of its dialect's order that says anything decides; the rest is
checked for words that nobody knows, and otherwise dropped.
"""

from __future__ import annotations

from msgspec import Raw

from buffer.job import Think
from gateway.dialects.errors import BadRequest
from gateway.dialects.fields import Fields, carried, object_fields, plain, wrong_type
from gateway.dialects.text import dump

_EFFORTS: dict[str, Think] = {
    "": "unset",
    "none": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "max",
    "max": "max",
    "ultra": "max",
}
_LEVELS: dict[str, Think] = {
    "": "unset",
    "true": "on",
    "false": "off",
    "none": "off",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "max",
}
_ON: dict[str, Think] = dict.fromkeys(("thinking", "think", "reasoning", "on", "true"), "on")
_OFF_WORDS = "non-thinking non_thinking nothinking no_think nothink instruct chat fast off false"
_OFF: dict[str, Think] = dict.fromkeys(_OFF_WORDS.split(), "off")
_MODES: dict[str, Think] = {
    **_ON,
    **_OFF,
    "auto": "unset",
    "default": "unset",
    "": "unset",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "max",
}
_ANTHROPIC_TYPES: dict[str, Think] = {
    "enabled": "on",
    "between_tools": "on",
    "adaptive": "unset",
    "disabled": "off",
}
_OLLAMA_WORDS = '"high", "medium", "low", "max", true, or false'
_XHIGH = Raw(b'"xhigh"')
_SWITCHES = ("enable_thinking", "thinking")
_ASKS = frozenset({"chat_template_kwargs", *_SWITCHES, "think", "reasoning", "reasoning_effort", "mode"})
"""An OpenAI body's own fields that ask."""


def from_openai(fields: Fields, options: Fields) -> Think:
    """Takes the OpenAI body's ways to ask out of ``fields`` and ``options``. Other ``chat_template_kwargs`` stay.

    Raises ``BadRequest`` for a word that means nothing, wherever it stands.
    """
    if not options and _ASKS.isdisjoint(fields):
        return "unset"
    asked = [_template_switch(fields)]
    asked += [_typed_switch(fields.pop(switch), switch) for switch in _SWITCHES if switch in fields]
    if (raw := fields.pop("think", None)) is not None:
        asked.append(_think(raw, openai=True))
    reasoning = fields.pop("reasoning", None)
    if reasoning is not None:
        asked.append(_reasoning(reasoning))
    if (raw := fields.pop("reasoning_effort", None)) is not None:
        asked.append(effort(raw, "reasoning_effort"))
    asked.append(_mode(options))
    asked.append(_mode(fields))
    return _first(asked)


def hides_reasoning(fields: Fields) -> bool:
    """Whether an OpenAI body asks not to be sent the thinking. The model may think all the same. Takes nothing out."""
    hidden = False
    if (raw := fields.get("include_reasoning")) is not None:
        hidden = _switch(raw, "include_reasoning") == "off"
    if (raw := fields.get("reasoning")) is not None and (
        raw := object_fields(raw, "reasoning").get("exclude")
    ) is not None:
        hidden |= _switch(raw, "reasoning.exclude") == "on"
    return hidden


def from_ollama(fields: Fields, options: Fields) -> Think:
    """Takes the Ollama body's ways to ask out of ``fields`` and ``options``. Raises ``BadRequest`` likewise."""
    asked: list[Think] = []
    if (raw := fields.pop("think", None)) is not None:
        asked.append(_think(raw, openai=False))
    if (raw := options.pop("reasoning_effort", None)) is not None:
        # Open WebUI files this setting of its own under the options; Ollama skips options that it doesn't know.
        word = plain(raw, "reasoning_effort")
        asked.append(_EFFORTS.get(word.strip().lower(), "unset") if isinstance(word, str) else "unset")
    asked.append(_mode(options))
    asked.append(_mode(fields))
    return _first(asked)


def from_responses(fields: Fields, reasoning: Fields) -> Think:
    """Takes what a Responses body and its ``reasoning`` ask. Raises ``BadRequest`` likewise."""
    asked: list[Think] = []
    if "effort" in reasoning:
        asked.append(effort(reasoning.pop("effort"), "reasoning.effort"))
    asked.append(_mode(fields))
    return _first(asked)


def from_anthropic(fields: Fields, config: Fields, output: Fields) -> Think:
    """Takes what a Messages body, its ``thinking`` and its ``output_config`` ask. Raises ``BadRequest`` likewise.

    Whether to think is one question, how hard is the other: ``enabled`` decides it before any effort does, and
    ``adaptive`` leaves it to the effort, or else to the model. Budgets of tokens have no meaning to engines.
    """
    asked: list[Think] = []
    if "type" in config:
        kind = plain(config.pop("type"), "thinking.type")
        if not isinstance(kind, str) or kind not in _ANTHROPIC_TYPES:
            raise wrong_type("thinking.type", "'enabled', 'adaptive' or 'disabled'")
        asked.append(_ANTHROPIC_TYPES[kind])
    if "effort" in output:
        raw = output.pop("effort")
        # Its scale has a step that is one of ours below the last.
        asked.append("high" if raw == _XHIGH else effort(raw, "output_config.effort"))
    asked.append(_mode(fields))
    return _first(asked)


def effort(raw: Raw, param: str) -> Think:
    """An effort word's meaning. Raises ``BadRequest``."""
    word = plain(raw, param)
    meaning = _EFFORTS.get(word.strip().lower()) if isinstance(word, str) else None
    if meaning is None:
        known = ", ".join(f"'{name}'" for name in _EFFORTS if name)
        raise BadRequest(f"Invalid value for '{param}'. Supported values are: {known}.", param=param)
    return meaning


def _first(asked: list[Think]) -> Think:
    return next((meaning for meaning in asked if meaning != "unset"), "unset")


def _template_switch(fields: Fields) -> Think:
    raw = fields.pop("chat_template_kwargs", None)
    if raw is None:
        return "unset"
    kwargs = object_fields(carried(raw, "chat_template_kwargs"), "chat_template_kwargs")
    asked: list[Think] = [
        _switch(kwargs.pop(name), f"chat_template_kwargs.{name}") for name in _SWITCHES if name in kwargs
    ]
    if kwargs:
        fields["chat_template_kwargs"] = Raw(dump(kwargs))
    return _first(asked)


def _switch(raw: Raw, param: str) -> Think:
    value = plain(raw, param)
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        value = value.lower() == "true"
    if not isinstance(value, bool):
        raise wrong_type(param, "a boolean")
    return "on" if value else "off"


def _typed_switch(raw: Raw, param: str) -> Think:
    """A boolean, or Anthropic's object: ``{"type": "enabled" | "disabled"}``."""
    value = plain(raw, param)
    if isinstance(value, dict):
        kind = value.get("type")
        meanings: dict[object, Think] = {"enabled": "on", "adaptive": "on", "disabled": "off"}
        if not isinstance(kind, str) or kind not in meanings:
            raise wrong_type(f"{param}.type", "'enabled' or 'disabled'")
        return meanings[kind]
    return _switch(raw, param)


def _reasoning(raw: Raw) -> Think:
    fields = object_fields(raw, "reasoning")
    asked: list[Think] = []
    if "effort" in fields:
        asked.append(effort(fields["effort"], "reasoning.effort"))
    if "enabled" in fields:
        asked.append(_switch(fields["enabled"], "reasoning.enabled"))
    return _first(asked)


def _think(raw: Raw, *, openai: bool) -> Think:
    value = plain(raw, "think")
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, str):
        raise BadRequest(f"think must be a boolean or string ({_OLLAMA_WORDS})", param="think")
    word = value.strip().lower()
    meaning = _LEVELS.get(word) or (_EFFORTS.get(word) if openai else None)
    if meaning is None:
        shown = value[:40].encode("ascii", "backslashreplace").decode()
        raise BadRequest(f'invalid think value: "{shown}" (must be {_OLLAMA_WORDS})', param="think")
    return meaning


def _mode(fields: Fields) -> Think:
    raw = fields.pop("mode", None)
    if raw is None:
        return "unset"
    value = plain(raw, "mode")
    word = str(value).lower() if isinstance(value, bool) else value
    meaning = _MODES.get(word.strip().lower()) if isinstance(word, str) else None
    if meaning is None:
        raise BadRequest(
            "Invalid value for 'mode'. Supported values are: 'thinking', 'non-thinking', 'auto', "
            "'low', 'medium', 'high', 'max'.",
            param="mode",
        )
    return meaning

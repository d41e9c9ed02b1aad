"""Pure: how a job's wish for thinking is put to an engine, and what to make of the thinking that comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from backends.reasoning import Splitter
from buffer.backend import Kind
from buffer.family import Family
from buffer.job import Chat, Think
from buffer.model_records import Families

Mode = Literal["show", "hold", "drop", "answer"]
"""What becomes of thinking that arrives. ``show``: it is sent on as such. ``drop``: it is not wanted. ``hold``: it is
not wanted, but if the answer proper stays empty it was the answer, put in the wrong field by the engine's parser.
``answer``: it is the answer."""

_CARRY: frozenset[Kind] = frozenset({"vllm", "ollama"})
"""Engines that take the thinking before a beginning, and the wish for it. (llama.cpp's takes either.)"""
_NO_FAMILY = Family("", "never", "off", "none", open_tag="", close_tag="", known=False)
LEVELS = ("low", "medium", "high", "max")
_BY_NAME = Families()


@dataclass(frozen=True, slots=True)
class Plan:
    think: Think
    """The wish, after what the engine can do."""
    mode: Mode
    family: Family
    continues: bool
    """The last message is the beginning of the answer."""
    inside: bool = False
    fields: dict[str, Any] = field(default_factory=dict)
    """``reasoning_effort`` and what goes into ``chat_template_kwargs``, for OpenAI's form."""

    def splitter(self) -> Splitter | None:
        """A splitter for the answer's text; None where the family shows no tags or the text is all answer."""
        if self.mode == "answer" or not self.family.open_tag:
            return None
        return Splitter(self.family.open_tag, self.family.close_tag, inside=self.inside)


def continues(chat: Chat) -> bool:
    """Whether the answer is to go on from a trailing assistant message."""
    if not chat.messages:
        return False
    last = chat.messages[-1]
    return last.role == "assistant" and not last.tool_calls and bool(last.content)


def plan(chat: Chat, upstream_model: str, kind: Kind, *, parses: bool = False, families: Families = _BY_NAME) -> Plan:
    """``parses``: this engine has been seen to tell thinking from answer by itself for this model."""
    found = families.of(upstream_model, chat.model)
    goes_on = continues(chat)
    think: Think = chat.think
    if goes_on and found.thinks != "always" and not (kind in _CARRY and chat.messages[-1].reasoning):
        # Engines refuse to go on from a beginning with thinking on, or take the rest for thinking, or think again.
        think = "off"
    tagged = kind in ("vllm", "openai") and not parses and not goes_on
    return Plan(
        think=think,
        mode=_mode(found, think, kind, goes_on=goes_on),
        family=found,
        continues=goes_on,
        inside=tagged and found.starts_inside(think),
        fields=_fields(found, think),
    )


def literal(chat: Chat) -> Plan:
    """For a literal prompt, which may have opened anything: what looks like a tag there is text."""
    mode: Mode = "show" if chat.front == "ollama" else "answer"
    return Plan("unset", mode, _NO_FAMILY, continues=False)


def _mode(found: Family, think: Think, kind: Kind, *, goes_on: bool) -> Mode:
    if goes_on:
        return "answer"
    if found.known and found.thinks == "never" and kind != "ollama" and think in ("unset", "off"):
        # vLLM's reasoning parser calls everything thinking that a model without thinking says.
        return "answer"
    if think != "off":
        return "show"
    return "drop" if found.thinks == "always" else "hold"


def _fields(found: Family, think: Think) -> dict[str, Any]:
    if think == "unset":
        return {}
    if found.switch == "effort":
        # There is no off: the least is asked for, and hidden.
        word = found.effort_words.get("low" if think == "off" else think)
        return {"reasoning_effort": word} if word else {}
    if found.switch == "none":
        return {"chat_template_kwargs": {"enable_thinking": False}} if think == "off" and not found.can_think else {}
    on = think != "off"
    switches = {found.switch: on}
    if found.switch == "thinking":
        switches["enable_thinking"] = on
    fields: dict[str, Any] = {"chat_template_kwargs": switches}
    if think in LEVELS:
        word = found.effort_words.get(think) if found.known else {"max": "high"}.get(think, think)
        if word:
            fields["reasoning_effort"] = word
    return fields


def ollama_think(chosen: Plan, chat: Chat, *, can_think: bool = True) -> bool | str | None:
    """The value of Ollama's ``think``; None: leave it out. ``can_think``: False if the model is known not to."""
    found, think = chosen.family, chosen.think
    if think == "unset":
        return None
    if think == "off":
        return False
    if chat.front != "ollama" and not (can_think and (found.can_think or not found.known)):
        # Ollama refuses it, all other clients expect it to be without effect.
        return None
    if think in LEVELS:
        if found.effort_words:
            return found.effort_words[think] if found.switch == "effort" else think
        return True if found.known else think
    return True

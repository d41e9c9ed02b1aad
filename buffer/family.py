"""What a model's name tells of its thinking: whether it can, what it does unasked, how it is told, how text shows it.

Pure. Families differ in all of these, and a wrong guess puts a whole answer into the wrong field: each has its own row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from buffer.job import Sampling
from buffer.names import model_key

Thinks = Literal["never", "always", "hybrid"]
Switch = Literal["enable_thinking", "thinking", "effort", "none"]
Mode = Literal["thinking", "non-thinking"]


@dataclass(frozen=True, slots=True)
class Family:
    """How models of one family think."""

    name: str
    thinks: Thinks
    default: Literal["on", "off"]
    """What the model does when nobody asks."""
    switch: Switch = "enable_thinking"
    """``enable_thinking``, ``thinking``: the chat template's variable (a JSON boolean). ``effort``: a word of
    ``effort_words``, and no off. ``none``: there is no switch."""
    open_tag: str = "<think>"
    close_tag: str = "</think>"
    """Empty tags: the family has no plain-text tags, the engine's own parser has to tell thinking from answer."""
    prompt_opens: bool = False
    """The chat template writes the open tag when thinking is on: answers start inside, and show the close tag only."""
    effort_words: Mapping[str, str] = field(default_factory=dict)
    """``low``, ``medium``, ``high``, ``max`` → the word its template knows. Empty: no levels, each of them means on."""
    system_first: bool = False
    """The template refuses a system message that is not the first message."""
    profiles: Mapping[Mode, Sampling] = field(default_factory=dict)
    """What its makers want it sampled with, for what a client leaves unset."""
    known: bool = True
    """False: the name says nothing. The model may think; what the engine tells decides."""

    @property
    def can_think(self) -> bool:
        return self.thinks != "never"

    def starts_inside(self, think: str) -> bool:
        """Whether an answer's text begins within the thinking, for a job that asked ``think`` (a ``job.Think``)."""
        if not self.prompt_opens or self.thinks == "never":
            return False
        if self.thinks == "always":
            return True
        return self.default == "on" if think == "unset" else think != "off"

    def will_think(self, think: str) -> bool:
        """Whether the model will think on a job that asked ``think``. If it always does, that can only be hidden."""
        if self.thinks != "hybrid":
            return self.thinks == "always"
        return self.default == "on" if think == "unset" else think != "off"

    def profile(self, think: str) -> Sampling | None:
        """The sampling for a job that asked ``think``; None: the engine's own."""
        return self.profiles.get("thinking" if self.will_think(think) else "non-thinking")


_NEVER = Family("plain", "never", "off", "none", "", "")
_UNKNOWN = Family("unknown", "hybrid", "on", known=False)
_HYBRID = Family("hybrid", "hybrid", "on")
_ALWAYS = Family("always", "always", "on", "none")
_INSIDE = replace(_ALWAYS, prompt_opens=True)
_BRACKETS = replace(_ALWAYS, open_tag="[THINK]", close_tag="[/THINK]")


def _named(family: Family, name: str) -> Family:
    return replace(family, name=name)


# Without thinking the numbers differ, and engines know one set at most: that of the model's default.
_QWEN3_PROFILES: Mapping[Mode, Sampling] = {
    "thinking": Sampling(temperature=0.6, top_p=0.95, top_k=20, min_p=0.0),
    "non-thinking": Sampling(temperature=0.7, top_p=0.8, top_k=20, min_p=0.0),
}
_QWEN35 = replace(_HYBRID, name="qwen3.5", prompt_opens=True, system_first=True)
_QWEN38 = replace(
    _QWEN35, name="qwen3.8", effort_words={"low": "low", "medium": "medium", "high": "xhigh", "max": "xhigh"}
)
_DEEPSEEK = Family("deepseek", "hybrid", "off", "thinking")
_DEEPSEEK_V4 = replace(_DEEPSEEK, effort_words={"low": "high", "medium": "high", "high": "high", "max": "max"})
_OSS_WORDS = {"low": "low", "medium": "medium", "high": "high", "max": "high"}
_GPT_OSS = Family("gpt-oss", "always", "on", "effort", open_tag="", close_tag="", effort_words=_OSS_WORDS)

# The first row whose pattern is found in the name decides. Names come as `model_key` writes them: dashes for colons.
_ROWS: tuple[tuple[str, Family], ...] = (
    # Models that answer no chat, or that were made without thinking, whatever family their name also holds.
    (r"embed|rerank|\basr\b|\btts\b|whisper|\bbge\b|\bocr\b", _NEVER),
    (r"gpt-?oss", _GPT_OSS),
    # Distilled models carry their teacher's template and the name of the model they were made from: teachers first.
    (r"deepseek-?r1|r1-distill|\br1-1776\b", _named(_INSIDE, "deepseek-r1")),
    (r"deepseek-?v4", _DEEPSEEK_V4),
    (r"deepseek-?v3\.[1-9]", _DEEPSEEK),
    (r"deepseek", _NEVER),
    (r"qwen3\.[89]|qwen[4-9]", _QWEN38),
    (r"qwen3\.[5-7]", _QWEN35),
    (r"qwen3.*-thinking", replace(_INSIDE, name="qwen3-thinking", profiles=_QWEN3_PROFILES)),
    (r"qwen3.*-(instruct|coder|2507)|qwen3-?coder", replace(_NEVER, name="qwen3-instruct", profiles=_QWEN3_PROFILES)),
    (r"qwen3(?![.\d])", replace(_HYBRID, name="qwen3", profiles=_QWEN3_PROFILES)),
    (r"qwq", _named(_INSIDE, "qwq")),
    (r"qwen", _NEVER),
    (r"gemma-?4", Family("gemma4", "hybrid", "off", "enable_thinking", "", "")),
    (r"gemma", _NEVER),
    (r"glm-?z1", _named(_INSIDE, "glm-z1")),
    (r"glm-?(4\.[5-9]|[5-9])", _named(_HYBRID, "glm")),
    (r"glm", _NEVER),
    (r"granite-?(3\.[2-9]|[5-9])", Family("granite", "hybrid", "off", "thinking")),
    (r"granite", _NEVER),
    (r"nemotron", _named(_HYBRID, "nemotron")),
    (r"smollm-?3", _named(_HYBRID, "smollm3")),
    (r"smollm", _NEVER),
    (r"kimi-?vl.*-thinking", replace(_ALWAYS, name="kimi-vl", open_tag="◁think▷", close_tag="◁/think▷")),
    (r"kimi.*-thinking", _named(_ALWAYS, "kimi-thinking")),
    (r"kimi-?k(2\.[5-9]|[3-9])", Family("kimi", "hybrid", "on", "thinking")),
    (r"kimi|moonlight", _NEVER),
    (r"magistral|ministral.*reasoning", _named(_BRACKETS, "magistral")),
    (r"phi-?4.*reasoning", _named(_ALWAYS, "phi4-reasoning")),
    (r"exaone-?deep", replace(_INSIDE, name="exaone-deep", open_tag="<thought>", close_tag="</thought>")),
    (r"exaone-?[4-9]", replace(_HYBRID, name="exaone", default="off", prompt_opens=True)),
    (r"minimax-?m[2-9]", _named(_INSIDE, "minimax")),
    (r"cogito", replace(_HYBRID, name="cogito", default="off")),
    (r"hunyuan", _named(_HYBRID, "hunyuan")),
    (r"openthinker|marco-?o1|\bsky-?t1\b|openreasoning", _ALWAYS),
    (r"mistral|mixtral|codestral|devstral|ministral|pixtral", _NEVER),
    (r"llama|llava|vicuna|\bphi\b|\bphi-?[1-4]|starcoder|\byi\b|falcon|\bolmo\b|command-r|\baya\b|gpt-?2", _NEVER),
)
_TABLE = tuple((re.compile(pattern), family) for pattern, family in _ROWS)


@lru_cache(maxsize=1024)
def family(model_name: str) -> Family:
    """The family that a model's name gives away, in any spelling; ``known`` is False for a name that gives none."""
    name = model_key(model_name[:512]).tail
    for pattern, found in _TABLE:
        if pattern.search(name):
            return found
    return _UNKNOWN

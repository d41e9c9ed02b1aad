"""What the operator says of models: how they think and are sampled, what they do unasked, and other names for them.

Pure. A record goes before what a model's name gives away (``family``); what it leaves out stays as the name tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from msgspec import Struct

from buffer.family import Family, Mode, Switch, Thinks, family
from buffer.job import Sampling, Think
from buffer.names import ModelKey, model_key

Level = Literal["low", "medium", "high", "max"]

_AS_DASH = str.maketrans(":_ ", "---")
_MOST_REMEMBERED = 1024


class Profile(Sampling, omit_defaults=True, forbid_unknown_fields=True):
    """Sampling of one mode. A word that is no setting is a mistake here, not somebody else's option."""


class ModelRecord(Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """One ``[[models]]`` of the file. None: as the model's name tells."""

    name: str
    """A pattern for the names of models, in any spelling; ``*`` stands for any text. With a ``/`` it is of organisation
    and name, else of the name alone."""
    thinks: Thinks | None = None
    default: Literal["on", "off"] | None = None
    """What the model does when nobody asks."""
    switch: Switch | None = None
    tags: list[str] | None = None
    """The tags round its thinking, two; none where its text shows none."""
    prompt_opens: bool | None = None
    effort_words: dict[Level, str] | None = None
    system_first: bool | None = None
    think: Think = "unset"
    """What a chat gets that asks nothing itself."""
    aliases: dict[str, Think] = {}
    """Ends of names that ask for something: the model's name with one of them is the model, asked so."""
    list_aliases: bool = False
    """Lists show those names too."""
    sampling: dict[Mode, Profile] | None = None
    cache: bool | None = None
    """Its answers are kept for whoever asks the same, or not. None: as the setting of that name says."""

    def applied(self, found: Family) -> Family:
        """The family that the name gave away, with what the record says."""
        changes: dict[str, Any] = {}
        if self.thinks is not None:
            changes["thinks"] = self.thinks
            if self.thinks != "hybrid" or not found.can_think:
                changes["default"] = "off" if self.thinks == "never" else "on"
            if self.thinks == "hybrid" and found.switch == "none":
                changes["switch"] = "enable_thinking"
            if self.thinks != "never" and not found.can_think:
                changes |= {"open_tag": "<think>", "close_tag": "</think>"}
        if self.tags is not None:
            changes["open_tag"], changes["close_tag"] = self.tags or ("", "")
        for name in ("default", "switch", "prompt_opens", "effort_words", "system_first"):
            if (value := getattr(self, name)) is not None:
                changes[name] = value
        if changes:
            changes["known"] = True
        if self.sampling is not None:
            changes["profiles"] = self.sampling
        return replace(found, **changes)


class Families:
    """How models think: by the operator's records, and else by their names."""

    def __init__(self, records: Sequence[ModelRecord] = ()) -> None:
        self._records = [(_Pattern(record.name), record) for record in records]
        self._suffixes = [
            (suffix.lower().translate(_AS_DASH), think, pattern)
            for pattern, record in self._records
            for suffix, think in sorted(record.aliases.items(), key=lambda pair: -len(pair[0]))
        ]
        self._known: dict[tuple[str, ...], Family] = {}

    def record(self, *names: str) -> ModelRecord | None:
        """The first record that fits the first name that any fits."""
        for name in names:
            key = model_key(name)
            for pattern, record in self._records:
                if pattern.fits(key):
                    return record
        return None

    def of(self, *names: str) -> Family:
        """The family of a model by these names of it; the first that says something decides."""
        known = self._known.get(names)
        if known is None:
            if len(self._known) >= _MOST_REMEMBERED:  # clients choose some of the names
                self._known.clear()
            known = self._known[names] = self._find(names)
        return known

    def _find(self, names: tuple[str, ...]) -> Family:
        bare = [names[0], *(base for name in names[1:] for base in (self._base(name), name))]
        told = [found for found in map(family, bare) if found.known]
        found = told[0] if told else family(bare[0])
        record = self.record(*bare)
        return found if record is None else record.applied(found)

    def _base(self, name: str) -> str:
        return next((base for base, _ in self.split(name)), name)

    def split(self, name: str) -> Iterator[tuple[str, Think]]:
        """The readings of ``name`` as a model's name with one of its aliases' ends: the model's, and what it asks."""
        bare = name.strip()
        if bare.lower().endswith(":latest"):
            bare = bare[: -len(":latest")]
        spelled = bare.lower().translate(_AS_DASH)
        if len(spelled) != len(bare):  # some capitals are longer in small letters
            return
        for suffix, think, pattern in self._suffixes:
            if spelled.endswith(suffix):
                base = bare[: -len(suffix)]
                if base and pattern.fits(model_key(base)):
                    yield base, think


def alias_names(name: str, aliases: Mapping[str, Think]) -> list[tuple[str, Think]]:
    """The names that aliases' ends make of a model's."""
    bare = name[: -len(":latest")] if name.lower().endswith(":latest") else name
    return [(bare + suffix, think) for suffix, think in aliases.items()]


class _Pattern:
    def __init__(self, text: str) -> None:
        org, slash, tail = text.rpartition("/")
        parts = [_any(part) for part in (org.rpartition("/")[2], tail)]
        self._org = parts[0] if slash else None
        self._tail = parts[1]

    def fits(self, key: ModelKey) -> bool:
        if self._org is not None and not self._org.fullmatch(key.org):
            return False
        return self._tail.fullmatch(key.tail) is not None


def _any(text: str) -> re.Pattern[str]:
    spelled = re.sub(r"-{2,}", "-", text.strip().lower().removesuffix(":latest").translate(_AS_DASH))
    return re.compile(".*".join(re.escape(part) for part in spelled.split("*")), re.DOTALL)

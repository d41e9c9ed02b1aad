"""The models of all back ends as one list: which spellings mean which of them, and in whose queue its jobs wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from msgspec import structs

from buffer.backend import ModelInfo
from buffer.family import family
from buffer.job import Think
from buffer.load import BackendState
from buffer.model_records import Families, ModelRecord, alias_names
from buffer.names import model_key, queue_names
from gateway.dialects.listing import tagged
from policy.inflight import OLLAMA_MOST
from policy.learned import UNKNOWN, Figures, together

SIMULATED_OWNER = "doublebuffer-simulated"
"""Who owns a model that only simulated engines serve, in OpenAI's list."""
MOST_FOUND = 1024
"""Names of which it is remembered what they mean,"""
LONGEST_FOUND = 256
"""if they have no more letters than so."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One back end's word that it serves a model under a name."""

    name: str
    """The upstream name, or an alias that the operator gave."""
    info: ModelInfo
    state: BackendState
    pool: str


@dataclass(frozen=True)
class Model:
    """A model, over all back ends that serve it, as it was told of last. What follows from that is worked out once."""

    name: str
    """The spelling shown in lists."""
    pool: str
    queue: str
    """The name under which its jobs wait."""
    offers: tuple[Offer, ...]
    orgs: frozenset[str]
    record: ModelRecord | None = None
    """What the operator says of it."""
    wish: Think = "unset"
    """What the name asks by which it was found."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Back end that does its jobs only in place of another → that other."""
    figures: Figures = UNKNOWN
    """What was learned of it by its use, over all back ends."""

    @property
    def tagged(self) -> str:
        """The name as Ollama's lists show it: with a tag."""
        return tagged(self.name)

    @cached_property
    def up(self) -> bool:
        """Whether any back end that serves it answered its last probe, or is started for those who wait."""
        return any(offer.state.up or offer.state.comes for offer in self.offers)

    @cached_property
    def comes_in_s(self) -> float:
        """Where nothing serves it now but what is started for those who wait: how long that may take. Else 0."""
        if any(offer.state.up for offer in self.offers):
            return 0.0
        return max((offer.state.comes_in_s for offer in self.offers if offer.state.comes), default=0.0)

    @cached_property
    def engines(self) -> list[tuple[int, int]]:
        """Of each back end that serves it now: jobs side by side, and tokens of memory (0: not told). Those that stand
        in for others are none while there are others."""
        serving = {offer.state.name: offer.state for offer in self.offers if offer.state.up}
        able = [state for state in serving.values() if not state.breaker_open]
        own = [state for state in able if state.name not in self.stand_ins]
        found = [(_places(state), state.kv_tokens) for state in own or able]
        return [(places, memory) for places, memory in found if places]

    @cached_property
    def able(self) -> Mapping[str, str]:
        """Back ends of its own that take jobs now → their kinds."""
        states = [offer.state for offer in self.offers if offer.state.name not in self.stand_ins]
        return {state.name: state.kind for state in states if state.up and not state.breaker_open}

    @property
    def failure(self) -> str:
        """Why what would be started for those who wait is not; empty: nothing would be."""
        return next((offer.state.error for offer in self.offers if offer.state.spare == "failed"), "")

    @property
    def loaded(self) -> bool:
        """Whether it is in an engine's memory; of engines with one model each, that is always so while they are up."""
        return any(
            offer.state.up and (offer.state.kind != "ollama" or offer.info.id in offer.state.loaded)
            for offer in self.offers
        )

    @property
    def simulated(self) -> bool:
        """Whether no real engine serves it."""
        return all(offer.state.simulated for offer in self.offers)

    @property
    def info(self) -> ModelInfo:
        """What the most talkative back end tells of it, but for what its operator knows better."""
        told = max((offer.info for offer in self.offers), key=_told)
        if self.record is None or self.record.thinks is None:
            return told
        able = [word for word in told.capabilities or ("completion", "tools") if word != "thinking"]
        return structs.replace(told, capabilities=[*able, "thinking"] if self.can_think else able)

    @cached_property
    def can_think(self) -> bool:
        """What the operator says decides; then what the engines tell; where none tells, the name."""
        if self.record is not None and self.record.thinks is not None:
            return self.record.thinks != "never"
        told = [offer.info.capabilities for offer in self.offers if offer.info.capabilities]
        if told:
            return any("thinking" in capabilities for capabilities in told)
        return family(self.info.id or self.name).can_think

    @property
    def alias_names(self) -> list[str]:
        """Further names of it for lists."""
        if self.record is None or not self.record.list_aliases:
            return []
        return [name for name, _ in alias_names(self.name, self.record.aliases)]


def _places(state: BackendState) -> int:
    """Of an Ollama that was not tried with more yet, it is not known that it takes no more."""
    places = state.limit or state.slots
    return max(places, OLLAMA_MOST) if state.kind == "ollama" and places and not state.in_turn else places


def _told(info: ModelInfo) -> int:
    return sum(bool(getattr(info, name)) for name in info.__struct_fields__)


@dataclass(frozen=True, slots=True)
class Models:
    """What all back ends served at one moment."""

    models: tuple[Model, ...] = ()
    states: tuple[BackendState, ...] = ()
    workers: int = 0
    families: Families = field(default_factory=Families)
    _by_tail: dict[str, list[Model]] = field(default_factory=dict)
    _found: dict[str, Model | None] = field(default_factory=dict, compare=False, repr=False)

    def find(self, name: str) -> Model | None:
        """The model that ``name`` means; None for none, and for one that could mean the models of two organisations.

        A model of just this name goes before another's name with an end that asks for something.
        """
        if name in self._found:
            return self._found[name]
        found = self._find(name)
        if len(name) <= LONGEST_FOUND:  # the client chooses what is remembered here
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            self._found[name] = found
        return found

    def _find(self, name: str) -> Model | None:
        if (model := self._served(name)) is not None:
            return model
        for base, wish in self.families.split(name):
            if (model := self._served(base)) is not None:
                return replace(model, wish=wish)
        return None

    def _served(self, name: str) -> Model | None:
        org, tail = model_key(name)
        candidates = self._by_tail.get(tail, [])
        if len(candidates) == 1:
            (only,) = candidates
            # Of a back end that names no organisation we cannot know that it is another's.
            fits = not org or org in only.orgs or only.orgs == {""}
            return only if fits else None
        return next((model for model in candidates if org in model.orgs), None)


def merge(states: Iterable[tuple[str, BackendState]], workers: int, families: Families | None = None) -> Models:
    """One list out of what each back end serves.

    ``states``: with the pool of each; the first pool that has a model gets its jobs. ``families``: what the operator
    says of models.
    """
    families = families or Families()
    states = sorted(states, key=lambda pair: pair[1].name)
    known = {state.name for _, state in states}
    by_tail: dict[str, list[Offer]] = {}
    for pool, state in states:
        infos = {info.id: info for info in state.models}
        names = {info.id: info for info in state.models}
        for alias, upstream in state.aliases.items():
            names.setdefault(alias, infos.get(upstream, ModelInfo(id=upstream)))
        for name, info in names.items():
            by_tail.setdefault(model_key(name).tail, []).append(Offer(name, info, state, pool))
    merged: dict[str, list[Model]] = {}
    for tail, offers in by_tail.items():
        here = [offer for offer in offers if offer.pool == offers[0].pool]
        orgs = {model_key(offer.name).org for offer in here}
        if len(orgs - {""}) < 2:
            merged[tail] = [_model(tail, here, orgs, families, known)]
            continue
        for org in sorted(orgs):
            own = [offer for offer in here if model_key(offer.name).org == org]
            merged.setdefault(tail, []).append(_model(queue_names(own[0].name)[1], own, {org}, families, known))
    models = sorted((model for found in merged.values() for model in found), key=lambda model: model.name)
    return Models(tuple(models), tuple(state for _, state in states), workers, families, merged)


def _model(queue: str, offers: list[Offer], orgs: set[str], families: Families, known: set[str]) -> Model:
    shown = min(offers, key=lambda offer: ":" not in offer.name)
    record = families.record(*(offer.info.id for offer in offers), shown.name)
    stand_ins = _stand_ins([offer.state for offer in offers], known)
    # Under an alias it is offered twice.
    told = {offer.state.name: offer.state.learned.get(offer.info.id, {}) for offer in offers}
    return Model(
        shown.name,
        shown.pool,
        queue,
        tuple(offers),
        frozenset(orgs),
        record,
        stand_ins=stand_ins,
        figures=together(told.values()),
    )


def _stand_ins(serving: list[BackendState], known: set[str]) -> dict[str, str]:
    """Of what nobody tells of any more, it is not known that it did not serve the model."""
    names = {state.name for state in serving}
    pairs = [
        (state.name, name) for state in serving for name in state.fallback_for if name in names or name not in known
    ]
    return dict(reversed(pairs))

"""The account of a run: what became of each chat, which bars were missed, and where to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.attempts import Tried
from tests.chaos.client import Result
from tests.chaos.leftovers import Leftovers

CONTINUED = 0.95
"""Least part of the broken answers that must have come to their end."""
SHOWN = 12
"""Rows of a kind."""


@dataclass
class Account:
    seed: int
    seconds: float
    results: Sequence[Result]
    attempts: Mapping[str, Sequence[Tried]]
    faults: Mapping[str, int]
    planned: int
    left: Leftovers
    folder: Path
    crashes: Sequence[str] = ()
    complaints: Sequence[str] = ()
    """Lines of logs that no process writes that is well."""
    notes: Mapping[str, float] = field(default_factory=dict)

    def broken(self) -> list[Result]:
        """Answers of which an attempt was cut after its first piece, and whose clients stayed.

        Not those of chats that were refused: such a one may have reached a store that did not answer any more, and is
        cancelled there once it does.
        """
        some = [r for r in self.results if r.fair and (r.id or r.outcome != "refused")]
        return [r for r in some if any(tried.broken for tried in self._of(r))]

    def _of(self, result: Result) -> Sequence[Tried]:
        return self.attempts.get(result.ask.task.marker, ())

    def bars(self) -> dict[str, tuple[int, Sequence[str]]]:
        """Name → how many, which must be none, and whose."""
        found: dict[str, tuple[int, Sequence[str]]] = {}
        hung = [r for r in self.results if r.outcome == "hung"]
        cut = [r for r in self.results if r.outcome == "cut off"]
        found["hung"] = (len(hung), [_name(r) for r in hung])
        found["cut off without a word"] = (len(cut), [_name(r) for r in cut])
        forgotten = [r for r in self.results if r.outcome == "forgotten"]
        found["detached and forgotten"] = (len(forgotten), [_name(r) for r in forgotten])
        for what in ("lost", "repeated", "reordered"):
            of = [r for r in self.results if getattr(r.flaws, what)]
            found[f"{what} words"] = (sum(getattr(r.flaws, what) for r in of), [_name(r) for r in of])
        wrong = [r for r in self.results if r.flaws.wrong]
        found["wrong answer"] = (len(wrong), [_name(r) for r in wrong])
        ends = [r for r in self.results if r.late or r.ends > 1]
        found["words behind the end, or two ends"] = (len(ends), [_name(r) for r in ends])
        length = [r for r in self.results if r.length_off]
        found["length other than asked for"] = (len(length), [_name(r) for r in length])
        found["slots leaked"] = (len(self.left.slots), self.left.slots)
        found["keys without a lifetime"] = (len(self.left.lasting), self.left.lasting)
        found["processes that ended by themselves"] = (len(self.crashes), self.crashes)
        found["tracebacks in logs"] = (len(self.complaints), self.complaints)
        return found

    @property
    def passed(self) -> bool:
        broken = self.broken()
        continued = sum(r.outcome == "answered" for r in broken)
        enough = not broken or continued >= CONTINUED * len(broken)
        return enough and not any(count for count, _ in self.bars().values())

    def table(self) -> str:
        outcomes = Counter(r.outcome for r in self.results)
        rows = [(f"requests, {self.seconds:g} s, seed {self.seed}", str(len(self.results)), "")]
        rows += [(f"  {name}", str(count), "") for name, count in outcomes.most_common()]
        back = [r for r in self.results if r.returns]
        rows += [("  of them detached, and came back", str(len(back)), "")]
        rows += [("", "", "")]
        rows += [(name, str(count), "" if not count else "MISSED: 0") for name, (count, _) in self.bars().items()]
        rows += [("", "", ""), *self._continued(), ("", "", "")]
        total = sum(self.faults.values())
        rows += [("faults", str(total), "" if total == self.planned else f"{self.planned} were planned")]
        rows += [(f"  {name}", str(count), "") for name, count in sorted(self.faults.items())]
        rows += [("", "", ""), ("quiet after the last answer", f"{self.left.quiet_s:.1f} s", "")]
        rows += [("dead letters", str(self.left.dead), "")]
        rows += [(name, f"{value:g}", "") for name, value in self.notes.items()]
        width = max(len(name) for name, _, _ in rows)
        return "\n".join(f"{name:<{width}}  {value:>8}  {word}".rstrip() for name, value, word in rows)

    def _continued(self) -> list[tuple[str, str, str]]:
        broken = self.broken()
        rows = []
        for title, some in (
            ("broken answers", broken),
            ("  as streams", [r for r in broken if r.ask.stream]),
            ("  in one piece", [r for r in broken if not r.ask.stream]),
        ):
            whole = sum(r.outcome == "answered" for r in some)
            share = f"{100 * whole / len(some):.1f} %" if some else "none"
            missed = f"MISSED: {CONTINUED:.0%}" if some is broken and whole < CONTINUED * len(some) else ""
            indent = " " * (len(title) - len(title.lstrip()))
            rows += [(title, str(len(some)), ""), (f"{indent}  continued", share, missed)]
        thinking = sum(r.outcome != "answered" and r.broken_in_thinking for r in broken)
        return [*rows, ("  not continued: in the midst of thinking", str(thinking), "")]

    def details(self) -> str:
        """What is needed to find out why a bar was missed."""
        lines = []
        for name, (count, whose) in self.bars().items():
            if count:
                lines += [f"{name}:", *(f"  {one}" for one in whose[:SHOWN])]
        errors = Counter(r.error for r in self.results if r.outcome.startswith("error"))
        lines += ["errors told:"] if errors else []
        lines += [f"  {count:>4}  {text}" for text, count in errors.most_common(SHOWN)]
        lost = [r for r in self.broken() if r.outcome != "answered"]
        lines += ["broken and not continued:"] if lost else []
        lines += [f"  {_name(r)}: {r.outcome}; {', '.join(map(_tried, self._of(r)))}" for r in lost[:SHOWN]]
        return "\n".join(lines)


def _name(result: Result) -> str:
    words = f"{result.words} of {result.ask.task.words} words"
    kind = "stream" if result.ask.stream else "whole"
    at = f"{result.began_at:.1f} to {result.ended_at:.1f}"
    return f"{result.ask.task.marker} {result.id or 'no id'} {result.ask.api} {kind} {at} {words}"


def _tried(tried: Tried) -> str:
    return f"{tried.backend} {tried.began_at:.1f} from {tried.said}: {tried.how}"

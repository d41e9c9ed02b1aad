"""The table of engines in ``doublebuffer top``: with bars where there is room for names beside them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doublebuffer.top_paper import Paper, bar, columns, fit, short, wrap

_KINDS = {"vllm": "vLLM", "ollama": "Ollama", "llamacpp": "llama.cpp", "openai": "OpenAI API"}
_STATES = ("down", "open", "trial", "starting", "up", "spare")
_SHORT = {"starting": "starts"}
_COLOURS = {"down": "bad", "open": "warn", "trial": "warn", "spare": "soft"}
_MOST_NAME = 20
_MODELS = 20
"""Columns for models that bars and the kinds of engines have to leave."""
_WIDE = 21
_BAR = 8
_RATE = 8


def engine_lines(engines: Sequence[Mapping[str, Any]], paper: Paper) -> list[list[str]]:
    """The titles, then each engine's lines, the troubled first."""
    if not engines:
        return [[paper.ink("ENGINE", "soft")], ["None is known yet. Workers tell of them once they run."]]
    name = min(_MOST_NAME, max(6, *(columns(engine["name"]) for engine in engines)))
    tells = any(engine["kv_tokens"] for engine in engines)
    wide = paper.width - name - 21 - (_WIDE + 1) * (1 + tells) - _RATE >= _MODELS
    places, memory = (_WIDE if wide else 8), (0 if not tells else _WIDE if wide else 10)
    titles = [fit("ENGINE", name), *([fit("KIND", 10)] if wide else []), fit("STATE", 6), fit("PLACES", places)]
    titles += [*([fit("MEMORY", memory)] if memory else []), f"{'TOKENS/S':>{_RATE}}"]
    used = columns(" ".join(titles)) + 2
    lines = [[paper.ink(f"{' '.join(titles)}  MODELS", "soft")]]
    for engine in sorted(engines, key=lambda engine: (_STATES.index(engine["state"]), engine["name"])):
        state = engine["state"]
        about = [fit(engine["name"], name)]
        about += [fit(_KINDS.get(engine["kind"], engine["kind"]), 10)] if wide else []
        about.append(paper.ink(fit(_SHORT.get(state, state), 6), _COLOURS.get(state, "accent")))
        if state == "down":
            left = paper.width - name - 8 - 11 * wide
            lines.append([" ".join([*about, fit(engine["error"] or "It cannot be reached.", left).rstrip()])])
            continue
        about.append(_gauge(engine["jobs"], engine["limit"], places, paper))
        about += [_gauge(engine["kv"], engine["kv_tokens"], memory, paper)] if memory else []
        line = " ".join([*about, f"{short(engine['tokens_per_s']):>{_RATE}}"])
        lines.append(_with_models(line, engine["loaded"] or engine["models"], paper.width - used, paper))
    return lines


def _gauge(used: int, whole: int, width: int, paper: Paper) -> str:
    """How much of what, with a bar before it where that fits."""
    if not whole:
        return " " * width
    told = f"{short(used)}/{short(whole)}"
    if width < 2 * _BAR:
        return fit(told, width)
    return f"{bar(used, whole, _BAR, paper)} {fit(told, width - _BAR - 1)}"


def _with_models(line: str, models: Sequence[str], room: int, paper: Paper) -> list[str]:
    """The names that one has to ask for are never cut: where none fits, they have lines of their own."""
    for count in range(len(models), 0, -1):
        more = f" +{len(models) - count}" if count < len(models) else ""
        told = ", ".join(models[:count]) + more
        if columns(told) <= room:
            return [f"{line}  {told}"]
    if not models:
        return [line.rstrip()]
    return [line.rstrip(), *(f"  {part}" for part in wrap(", ".join(models), paper.width - 2, 2))]

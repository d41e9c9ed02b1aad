"""How the pages with plots look, and what they are put together from. Nothing in them is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#5b6570;--grid:#e3e7eb;--card:#f7f8fa;
--doublebuffer:#0b6bcb;--direct:#c2410c;--fixed-window:#9a7b16}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e8ebee;--soft:#9aa4af;--grid:#2b3138;--card:#1b1f25;
--doublebuffer:#5cb0ff;--direct:#ff8a5c;--fixed-window:#d9b94a}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:24px 20px 60px}h1{margin:.2em 0}h2{margin:2em 0 .3em}h3{margin:0 0 .3em;
font-size:15px}p{max-width:75ch}.said{color:var(--soft)}.gist{font-size:1.25em}
strong{white-space:nowrap}.plots{display:grid;gap:16px;
grid-template-columns:repeat(auto-fit,minmax(320px,1fr))}figure{margin:0;padding:14px;background:var(--card);
border-radius:10px}svg{width:100%;height:auto;display:block}.grid{stroke:var(--grid)}.tick,.name{fill:var(--soft);
font-size:11px}.line{fill:none;stroke-width:2.5}.direct{stroke:var(--direct)}.fixed-window{stroke:var(--fixed-window);
stroke-dasharray:5 4}.doublebuffer{stroke:var(--doublebuffer)}.dot{stroke:none}.dot.direct{fill:var(--direct)}
.dot.fixed-window{fill:var(--fixed-window)}.dot.doublebuffer{fill:var(--doublebuffer)}.key{display:flex;gap:22px;
flex-wrap:wrap;list-style:none;padding:0}.key svg{width:34px;display:inline-block;vertical-align:middle;
margin-right:6px}pre{overflow-x:auto;background:var(--card);padding:14px;border-radius:10px;font-size:12.5px}
"""

LANES = {
    "fast": "Short chats (up to 512 tokens)",
    "normal": "Middle prompts (up to 4,096)",
    "slow": "Long documents",
}
"""Lane → what a person calls it."""


def whole(title: str, parts: Iterable[str]) -> str:
    """A page of its own. ``parts`` is HTML, ``title`` is text."""
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<style>{STYLE}</style></head><body><main>",
    )
    return "\n".join([*head, *parts, "</main></body></html>\n"])


def key(lines: Mapping[str, str]) -> str:
    """What each line is. ``lines``: class of the line → text."""
    items = "".join(
        f'<li><svg viewBox="0 0 34 10"><line class="line {name}" x1="0" x2="34" y1="5" y2="5"/></svg>'
        f"{escape(text)}</li>"
        for name, text in lines.items()
    )
    return f'<ul class="key">{items}</ul>'


def figure(heading: str, svg: str) -> str:
    """A plot under its heading; empty without a plot."""
    return f"<figure><h3>{escape(heading)}</h3>{svg}</figure>" if svg else ""

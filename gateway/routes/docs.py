"""The routes of this gateway as a page that loads nothing: no script, no style and no picture of another host."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import HTMLResponse

_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Doublebuffer: routes</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 56rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; table-layout: fixed; width: 100%; }}
td {{ border-top: 1px solid #8884; padding: .3rem 1rem .3rem 0; vertical-align: top; }}
td:first-child {{ width: 4rem; }}
td:nth-child(2) {{ overflow-wrap: anywhere; width: 40%; }}
</style></head><body>
<h1>Doublebuffer {version}</h1>
<p>{summary} The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>
{groups}
</body></html>
"""


def docs_routes(app: FastAPI) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.head("/docs")
    @router.get("/docs")
    async def docs() -> HTMLResponse:
        return HTMLResponse(_page(app.openapi()), headers=_HEADERS)

    return router


def _page(schema: dict[str, Any]) -> str:
    groups: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            cells = (f"<code>{method.upper()}</code>", f"<code>{escape(path)}</code>", escape(route["summary"]))
            row = "".join(f"<td>{cell}</td>" for cell in cells)
            groups.setdefault(route["tags"][0], []).append(f"<tr>{row}</tr>")
    tables = (f"<h2>{escape(name)}</h2>\n<table>\n" + "\n".join(rows) + "\n</table>" for name, rows in groups.items())
    about = schema["info"]
    return _PAGE.format(version=escape(about["version"]), summary=escape(about["summary"]), groups="\n".join(tables))

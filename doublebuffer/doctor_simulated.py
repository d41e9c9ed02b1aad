"""No engine anywhere: wrong, or just what somebody wanted who looks around?"""

from __future__ import annotations

from collections.abc import Iterable

import httpx

from buffer.load import BackendState
from buffer.settings import Settings
from doublebuffer.doctor_report import Finding, note, wrong
from gateway.models import SIMULATED_OWNER

TOPIC = "back ends"
TIMEOUT_S = 3.0
_ANY = {"0.0.0.0", "::", ""}


async def no_engine(looked: str, settings: Settings, states: Iterable[BackendState]) -> Finding:
    """``looked``: where none was found. ``states``: what the workers of this Redis tell. Where they tell of
    none that is up, whatever runs at the gateway's address is asked."""
    up = [state for state in states if state.up]
    if all(state.simulated for state in up) if up else await _is_simulated(_address(settings)):
        text = f"{looked}; what runs here is SIMULATED, so its answers mean nothing"
        return note(TOPIC, text, "start an engine, and it is taken within seconds; or set DOUBLEBUFFER_BACKENDS")
    remedy = "start an engine or set DOUBLEBUFFER_BACKENDS; until then `doublebuffer up` only simulates one"
    return wrong(TOPIC, looked, remedy)


def _address(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in _ANY else settings.host
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


async def _is_simulated(address: str) -> bool:
    """Whether a Doublebuffer runs there, and on nothing but a simulated engine."""
    async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
        try:
            answer = await client.get(f"{address}/v1/models")
            told = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
            return False
    models = told.get("data") if isinstance(told, dict) and "x-doublebuffer" in answer.headers else None
    if not isinstance(models, list) or not models:
        return False
    return all(isinstance(model, dict) and model.get("owned_by") == SIMULATED_OWNER for model in models)

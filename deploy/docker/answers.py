"""Exits with 0 if what runs in this container answers: a gateway, a worker or the simulated engine, whichever it is.

The image's HEALTHCHECK. A 401 counts: it asks for a key, so it is there.
"""

from __future__ import annotations

import http.client
import os
import sys

PLACES = (
    (os.environ.get("DOUBLEBUFFER_PORT") or "11435", "/health"),
    (os.environ.get("DOUBLEBUFFER_METRICS_PORT") or "11436", "/metrics"),
    ("11500", "/health"),
)
PATIENCE_S = 3.0


def answers(port: str, path: str) -> bool:
    """Whether something on this machine takes the request, and says no error of its own."""
    link = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    try:
        link.request("GET", path)
        return link.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


if __name__ == "__main__":
    sys.exit(not any(answers(port, path) for port, path in PLACES))

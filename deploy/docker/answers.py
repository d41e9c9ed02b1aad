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


def status(port: str, path: str) -> int | None:
    """What a server there says; 599 if it says nothing, None if there is none."""
    link = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    try:
        link.request("GET", path)
        return link.getresponse().status
    except ConnectionRefusedError:
        return None
    except (OSError, http.client.HTTPException):
        return 599
    finally:
        link.close()


def main() -> int:
    """The first that is there decides."""
    said = next((found for port, path in PLACES if (found := status(port, path)) is not None), 599)
    return int(said >= 500)


if __name__ == "__main__":
    sys.exit(main())

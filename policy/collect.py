"""When requests that can be asked together have been collected for long enough. Pure.

An engine that is asked for embeddings takes a list, and a call for many costs little more than one for one. They come
in bursts: a page that uploads a file asks for all of its pieces at once, each in a request of its own. So here a wait
pays, and the window bounds it; what comes alone goes at once.
"""

from __future__ import annotations

from typing import Final

from policy.window import GO, Go, Hold, WindowPolicy

LULL_S: Final = 0.005
"""Nothing came for so long: the burst is over, whatever its pace was."""
LULL_GAPS: Final = 4.0
"""Nor did anything for so many times the mean time between two."""


def collect(
    policy: WindowPolicy,
    *,
    window_s: float,
    most: int,
    waiting: int,
    oldest_wait_s: float,
    quiet_s: float,
    in_flight: int,
) -> Hold | Go:
    """``waiting`` requests stand before an engine that has room for another call, the oldest for ``oldest_wait_s``.

    ``most``: as many as one call takes. ``quiet_s``: since when no new one has come. ``in_flight``: calls under way: as
    long as there is one, waiting costs little, since the next is begun at once when it ends.
    """
    left_s = window_s - max(0.0, oldest_wait_s)
    if waiting == 0 or waiting >= most or left_s <= 0:
        return GO
    if policy == "fixed" or in_flight:
        return Hold(left_s)
    lull_s = max(LULL_S, LULL_GAPS * oldest_wait_s / waiting)
    if waiting == 1 or quiet_s >= lull_s:
        return GO
    return Hold(min(left_s, lull_s - quiet_s))

"""Bringing an engine up, again and again if need be, until it is certain that it never will."""

from __future__ import annotations

import time
from collections.abc import Callable

from kgqa_hpc.errors import EngineDied, EngineError

# s before the second restart of an engine in a row, and before a late one
PAUSE, LONGEST_PAUSE = 0.1, 30.0


def bring_up(
    start: Callable[[], object],
    restarts: int,
    stopped: Callable[[], bool],
    deaths: int = 0,
    last: EngineDied | None = None,
) -> int:
    """Call `start` until the engine is up or `stopped()`; returns how often it has died in a row.

    `deaths` and `last` tell of those before. The first restart comes at once, later ones after growing
    pauses of at most half a minute. Raises EngineError after more than `restarts` deaths; what `start`
    raises besides EngineDied passes through.
    """
    while not stopped():
        if deaths > restarts:
            raise EngineError(
                f"the engine died {deaths} times without an answer: {last.message if last else ''}",
                "its log in the run's logs/ tells more; everything finished is saved",
            ) from last
        until = time.monotonic() + min(PAUSE * 2.0 ** max(deaths - 2, 0), LONGEST_PAUSE)
        while deaths > 1 and time.monotonic() < until and not stopped():
            time.sleep(0.05)
        try:
            start()
            return deaths
        except EngineDied as death:
            deaths, last = deaths + 1, death
    return deaths

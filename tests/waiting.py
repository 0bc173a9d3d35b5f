"""Waiting for a condition, with a limit so long that only a fault reaches it."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 420.0  # s; for what takes half a minute on an idle machine


def wait_for(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, f"waited {patience:.0f} s in vain for {what}"
        time.sleep(0.02)

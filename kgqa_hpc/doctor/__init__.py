"""Checks of this machine, each with a cure for what fails.

The probes (probes.py, packages.py) run side by side, each in a thread of its own with a limit, so that one
hanging mount or driver is one line of the answer and not a hanging doctor.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Literal

from kgqa_hpc.doctor import packages, probes
from kgqa_hpc.doctor.probes import Check, Probe

TIMEOUT = 5.0  # s for each probe
PROBES: dict[str, Probe] = {**probes.PROBES, **packages.PROBES}


def diagnose(timeout: float = TIMEOUT) -> list[Check]:
    """All checks, in the order of the page. Takes as long as the slowest probe, about `timeout` s at most."""
    deadline = time.monotonic() + timeout
    started = [(name, *_start(probe, timeout)) for name, probe in PROBES.items()]
    checks: list[Check] = []
    for name, thread, answer in started:
        thread.join(max(0.0, deadline - time.monotonic()) + 0.5)
        silent = Check(name, False, f"no answer within {timeout:g} s", "try again on an idle machine")
        checks += answer or [silent]
    return checks


def render(checks: Sequence[Check]) -> str:
    """One line per check, and under a failed check the line that cures it."""
    lines = []
    for check in checks:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "--  "
        lines.append(f"{mark} {check.name:<16} {' '.join(check.detail.split())}")
        if check.fix and not check.ok:
            lines.append(f"{'':<21} fix: {check.fix}")
    return "\n".join(lines)


def exit_code(checks: Sequence[Check]) -> Literal[0, 1]:
    """1 when something does not work that would make a run fail or hang."""
    return 1 if any(check.needed and not check.ok for check in checks) else 0


def _start(probe: Probe, timeout: float) -> tuple[threading.Thread, list[Check]]:
    answer: list[Check] = []
    # A daemon: a probe stuck in a dead mount must not keep the process.
    thread = threading.Thread(target=lambda: answer.extend(probe(timeout)), daemon=True)
    thread.start()
    return thread, answer

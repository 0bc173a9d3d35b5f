"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path

# A cgroup's own limit, as a process inside sees it: version 2, and the two files of version 1.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = (Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))


def usable_cores() -> int:
    """Cores this process may use: its affinity (Slurm and containers set it), and its cgroup's CPU quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else min(cores, max(int(quota), 1))


def _quota() -> float | None:
    """Cores' worth of time the cgroup grants; None without a limit."""
    for files in ((_QUOTA,), _QUOTA_V1):
        try:
            words = " ".join(file.read_text() for file in files).split()
            limit, period = (float(word) for word in words)
        except (OSError, ValueError):
            continue  # no such file, or "max"
        if limit > 0 and period > 0:
            return limit / period
    return None

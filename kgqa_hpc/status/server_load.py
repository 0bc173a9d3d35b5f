"""Counts of failed requests to model servers: retries, refusals (HTTP 429), and the seconds waited for both.

A worker with such failures writes the counts by pass into logs/servers/WORKER.json, which stays after its end. Only
`status` reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.regular import names_if_there, read_if_there

FOLDER = "servers"
LARGEST = 1 << 16  # bytes


def write_loads(logs: Path, worker: str, loads: Mapping[str, Mapping[str, float]]) -> None:
    """Write one worker's counts by pass, without fsync. Raises DiskFull, StoreError."""
    path = logs / FOLDER / f"{worker}.json"
    make_folder(path.parent)
    write_file(path, canonical.dumps(loads) + b"\n", durable=False)


def read_loads(logs: Path) -> dict[str, dict[str, Any]]:
    """The sums over all workers by pass; unreadable files are left out."""
    sums: dict[str, Counter[str]] = {}
    for name in names_if_there(logs / FOLDER):
        try:
            loads = canonical.loads(read_if_there(logs / FOLDER / name, LARGEST) or b"")
        except ValueError:
            continue
        for pass_name, load in loads.items() if isinstance(loads, dict) else ():
            for key, value in load.items() if isinstance(load, dict) else ():
                if isinstance(value, int | float) and 0 <= value < 2**53:
                    sums.setdefault(pass_name, Counter())[key] += value  # type: ignore[assignment]
    return {pass_name: described(total) for pass_name, total in sums.items()}


def described(load: Mapping[str, float]) -> dict[str, Any]:
    """The counts for the status: whole numbers, and seconds with one decimal."""
    numbers = {key: int(load.get(key, 0)) for key in ("retries", "throttled")}
    return {**numbers, "waited_s": round(load.get("waited_s", 0.0), 1)}

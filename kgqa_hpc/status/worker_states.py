"""What each worker says of itself: one small file per process in logs/workers/, rewritten every few seconds.

Nothing depends on them: they are for people and for `status`. Whose file is old is dead or suspended. A
worker that ends in order removes its own; the lead sweeps what the others left.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import make_folder, write_file

ALIVE = 90.0  # s; three missed rewrites of the slowest rhythm. Clocks of nodes may differ by seconds.
LITTER = 86_400.0


def state_file(logs: Path, worker: str) -> Path:
    return logs / "workers" / f"{worker}.json"


def write_state(logs: Path, worker: str, state: dict[str, Any]) -> None:
    """Not synced: it is stale in a minute anyway. Raises DiskFull, StoreError."""
    path = state_file(logs, worker)
    make_folder(path.parent)
    write_file(path, canonical.dumps(state) + b"\n", durable=False)


def remove_state(logs: Path, worker: str) -> None:
    with suppress(FileNotFoundError):
        state_file(logs, worker).unlink()


def read_states(logs: Path) -> Iterator[dict[str, Any]]:
    """Every worker's state with its `age` in seconds; unreadable ones are skipped, they are about to be
    rewritten.
    """
    now = time.time()
    for path in _files(logs):
        try:
            data = path.read_bytes()
            age = now - path.stat().st_mtime
            state = canonical.loads(data)
        except (FileNotFoundError, ValueError):
            continue
        if isinstance(state, dict):
            if _is_dead(state):
                age = max(age, ALIVE + 1)
            yield {**state, "age": round(max(age, 0.0), 1)}


def sweep_states(logs: Path) -> None:
    """Remove the states of workers that have been dead for a day."""
    now = time.time()
    for path in _files(logs):
        with suppress(FileNotFoundError):
            if now - path.stat().st_mtime > LITTER:
                path.unlink()


def _is_dead(state: dict[str, Any]) -> bool:
    """Whether it is a process of this machine that is there no more; of others only age tells."""
    return state.get("host") == socket.gethostname() and not psutil.pid_exists(int(state.get("pid", 0)))


def _files(logs: Path) -> list[Path]:
    folder = logs / "workers"
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except FileNotFoundError:
        return []

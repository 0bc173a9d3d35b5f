"""The state of each worker: one small file per process in logs/workers/, rewritten every few seconds.

Only `status` reads them. A worker with an old file is dead or suspended.
A worker that ends normally removes its file; the coordinator removes the others.

A worker whose requests to a model server failed also writes logs/servers/WORKER.json, which stays after its end:
retries, refusals (HTTP 429) and the seconds waited for both, by pass.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.cleanup import machine, time_at
from kgqa_hpc.store.regular import names_if_there, read_if_there, read_if_there_with_state

ALIVE = 90.0  # s; three missed rewrites at the longest interval
LITTER = 86_400.0
LARGEST = 1 << 16  # bytes


def state_file(logs: Path, worker: str) -> Path:
    return logs / "workers" / f"{worker}.json"


def write_state(logs: Path, worker: str, state: dict[str, Any]) -> None:
    """Write the state without fsync, because it is soon rewritten. Raises DiskFull, StoreError."""
    path = state_file(logs, worker)
    make_folder(path.parent)
    write_file(path, canonical.dumps(state) + b"\n", durable=False)


def remove_state(logs: Path, worker: str) -> None:
    with suppress(OSError):  # a file that remains is soon old
        state_file(logs, worker).unlink()


def read_states(logs: Path) -> Iterator[dict[str, Any]]:
    """Every worker's state with its `age` in seconds by the file system's clock.

    Unreadable files are skipped; their workers are about to rewrite them.
    """
    names = _names(logs)
    now = time_at(logs / "workers") if names else 0.0
    for name in names:
        entry = read_if_there_with_state(logs / "workers" / name, LARGEST)
        try:
            state = canonical.loads(entry[0]) if entry else None
        except ValueError:
            continue
        if isinstance(state, dict) and entry:
            age = now - entry[1].st_mtime
            if _is_dead(state):
                age = max(age, ALIVE + 1)
            yield {**state, "age": round(max(age, 0.0), 1)}


def sweep_states(logs: Path) -> None:
    """Remove the state files of workers that have been dead for a day."""
    names = _names(logs)
    now = time_at(logs / "workers") if names else 0.0
    for name in names:
        with suppress(OSError):
            path = logs / "workers" / name
            if now - path.stat().st_mtime > LITTER:
                path.unlink()


def place() -> dict[str, str]:
    """The scope in which a process id is unique: the running kernel and its pid namespace."""
    try:
        return {"machine": machine(), "pid_namespace": os.readlink("/proc/self/ns/pid")}
    except OSError:
        return {"machine": machine(), "pid_namespace": ""}


def _is_dead(state: dict[str, Any]) -> bool:
    """Whether the worker was a process of this machine that has ended; False for workers of other machines."""
    process_place = place()
    pid = state.get("pid")
    return (
        all(process_place.values())
        and {key: state.get(key) for key in process_place} == process_place
        and isinstance(pid, int)
        and not psutil.pid_exists(pid)
    )


def _names(logs: Path) -> list[str]:
    return [name for name in names_if_there(logs / "workers") if name.endswith(".json")]


def write_loads(logs: Path, worker: str, loads: Mapping[str, Mapping[str, float]]) -> None:
    """Write one worker's counts by pass, without fsync. Raises DiskFull, StoreError."""
    path = logs / "servers" / f"{worker}.json"
    make_folder(path.parent)
    write_file(path, canonical.dumps(loads) + b"\n", durable=False)


def read_loads(logs: Path) -> dict[str, dict[str, Any]]:
    """The sums over all workers by pass; unreadable files are left out."""
    sums: dict[str, Counter[str]] = {}
    for name in names_if_there(logs / "servers"):
        try:
            loads = canonical.loads(read_if_there(logs / "servers" / name, LARGEST) or b"")
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

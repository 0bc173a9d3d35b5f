"""Small files in the logs of a run that `status` reads: states of workers, failed requests, history of the progress.

The state of a worker is one file per process in logs/workers/, rewritten every few seconds. A worker with an old file
is dead or suspended. A worker that ends normally removes its file; the coordinator removes the others.

A worker whose requests to a model server failed also writes logs/servers/WORKER.json, which stays after its end:
retries, refusals (HTTP 429) and the seconds waited for both, by pass.

The coordinator appends the number of finished items to logs/history.jsonl every minute. Results hold no times (equal
work gives equal bytes), so rates need this file. If it is lost or damaged, only the rate and the remaining time are
unknown for a while.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from kgqa_hpc.store import atomic, canonical, cleanup

ALIVE = 90.0  # seconds; an older state means a dead worker: it missed three rewrites at the longest interval
LITTER = 86_400.0  # age in seconds at which the file of a dead worker is removed
LARGEST = 1 << 16  # largest number of bytes read of a state file
STATES, LOADS = "workers", "servers"  # folders in logs/: states of workers, counts of failed requests
NO_LOAD = {"retries": 0, "throttled": 0, "waited_s": 0.0}


def write_state(logs: Path, worker: str, state: Mapping[str, Any], folder: str = STATES) -> None:
    """Write a worker's state, or into LOADS its counts of failed requests by pass. Raises DiskFull, StoreError.

    The file is not fsynced, because it is soon rewritten.
    """
    path = logs / folder / f"{worker}.json"
    atomic.make_folder(path.parent)
    atomic.write_file(path, canonical.dumps(state) + b"\n", durable=False)


def remove_state(logs: Path, worker: str) -> None:
    with suppress(OSError):  # a file that cannot be removed soon counts as old
        (logs / STATES / f"{worker}.json").unlink()


def sweep_states(logs: Path) -> None:
    """Remove the state files of workers that have been dead for a day."""
    folder = logs / STATES
    names, now = atomic.names_if_there(folder), cleanup.time_at(folder)
    for path in (folder / name for name in names):
        with suppress(OSError):
            if now - path.stat().st_mtime > LITTER:
                path.unlink()


def read_states(logs: Path) -> Iterator[dict[str, Any]]:
    """Every worker's state with its `age` in seconds by the file system's clock; a file without a name is left out."""
    process_scope, now = place(), cleanup.time_at(logs / STATES)
    for state, written in _documents(logs / STATES):
        if not isinstance(state.get("worker"), str):
            continue
        ended = (  # known only for processes of this machine
            all(process_scope.values())
            and {key: state.get(key) for key in process_scope} == process_scope
            and isinstance(state.get("pid"), int)
            and not psutil.pid_exists(state["pid"])
        )
        yield {**state, "age": round(max(now - written, ALIVE + 1 if ended else 0.0), 1)}


def place() -> dict[str, str]:
    """The scope in which a process id is unique: the running kernel and its pid namespace."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return {"machine": cleanup.machine(), "pid_namespace": namespace}


def read_loads(logs: Path) -> dict[str, dict[str, Any]]:
    """The sums over all workers by pass: whole numbers, and seconds with one decimal."""
    sums: dict[str, Counter[str]] = {}
    for loads, _ in _documents(logs / LOADS):
        for pass_name, load in loads.items():
            for key, value in load.items() if isinstance(load, dict) else ():
                if isinstance(value, int | float) and 0 <= value < 2**53:
                    sums.setdefault(pass_name, Counter())[key] += value  # type: ignore[assignment]
    return {
        pass_name: {key: round(total[key], 1) if key == "waited_s" else int(total[key]) for key in NO_LOAD}
        for pass_name, total in sums.items()
    }


def _documents(folder: Path) -> Iterator[tuple[dict[str, Any], float]]:
    """The content and modification time of each file; unreadable files are left out, for they are soon rewritten."""
    for name in (name for name in atomic.names_if_there(folder) if name.endswith(".json")):
        try:
            data, status = atomic.read_with_state(folder / name, LARGEST)
            document = canonical.loads(data)
        except (OSError, ValueError):
            continue
        if isinstance(document, dict):
            yield document, status.st_mtime


HISTORY = "history.jsonl"
IDLE = 600.0  # seconds; a longer gap between two notes means that no worker was running, and does not count
HOUR, DAY = 3600.0, 86_400.0
TAIL = 1 << 20  # bytes read from the end of the history; about two weeks of notes

Notes = list[tuple[float, int]]  # (seconds since 1970, number of finished items)


def note_progress(logs: Path, ended: int, now: float | None = None) -> None:
    """Append the number of finished items to the history. Raises DiskFull, StoreError."""
    atomic.make_folder(logs)
    line = canonical.dumps({"time": round(time.time() if now is None else now, 1), "ended": ended})
    with atomic.disk_errors(logs / HISTORY):
        atomic.append(logs / HISTORY, line + b"\n")


def read_notes(logs: Path, limit: int = 1 << 24) -> Notes:
    """The readable notes in the last `limit` bytes."""
    notes = []
    for line in (atomic.read_if_there(logs / HISTORY, limit) or b"").split(b"\n"):
        try:
            entry = canonical.loads(line)
            notes.append((float(entry["time"]), int(entry["ended"])))
        except (ValueError, TypeError, KeyError, OverflowError):
            continue  # a line cut at the front, torn at the end, or mixed by two coordinators is left out
    return notes


def read_rate(logs: Path, now: float | None = None) -> list[float | None]:
    """Items per day: over all time in which a worker ran, and over the last hour; None if unknown."""
    notes = read_notes(logs, TAIL)
    newest = time.time() if now is None else now
    recent = [note for note in notes if note[0] > newest - HOUR]
    times = map(active_time, (notes, recent))
    return [items / seconds * DAY if seconds >= 1 else None for seconds, items in times]


def active_time(notes: Notes) -> tuple[float, int]:
    """Seconds in which a worker ran, and the items that ended in them; a minute of each start may be missing."""
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(notes)]
    steps = [(seconds, items) for seconds, items in steps if 0 < seconds < IDLE and items >= 0]
    return sum(seconds for seconds, _ in steps), sum(items for _, items in steps)

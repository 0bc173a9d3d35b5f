"""The rate of a run: the coordinator appends the number of finished items to logs/history.jsonl every minute.

Results hold no times (equal work gives equal bytes), so rates need this file. If it is lost or damaged, only the rate
and the remaining time are unknown for a while.
"""

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors, make_folder
from kgqa_hpc.store.regular import append, read_if_there

NAME = "history.jsonl"
IDLE = 600.0  # s; a longer gap between two notes means that no worker was running, and does not count
HOUR, DAY = 3600.0, 86_400.0
TAIL = 1 << 20  # bytes; about two weeks of notes

Notes = list[tuple[float, int]]  # seconds since 1970, items ended


@dataclass(frozen=True, slots=True)
class Rate:
    """Items per day: over all time in which a worker ran, and over the last hour; None if unknown."""

    overall: float | None = None
    last_hour: float | None = None


def note(logs: Path, ended: int, now: float | None = None) -> None:
    """Append one line. Raises DiskFull, StoreError."""
    make_folder(logs)
    line = canonical.dumps({"time": round(time.time() if now is None else now, 1), "ended": ended})
    path = logs / NAME
    with disk_errors(path):
        append(path, line + b"\n")


def rate(logs: Path, now: float | None = None) -> Rate:
    """The rates computed from the notes."""
    notes = read_notes(logs, TAIL)
    overall = _slope(notes)
    newest = time.time() if now is None else now
    return Rate(overall, _slope([note for note in notes if note[0] > newest - HOUR]))


def read_notes(logs: Path, limit: int = 1 << 24) -> Notes:
    """The readable notes in the last `limit` bytes."""
    notes = []
    for line in (read_if_there(logs / NAME, limit) or b"").split(b"\n"):
        try:
            entry = canonical.loads(line)
            notes.append((float(entry["time"]), int(entry["ended"])))
        except (ValueError, TypeError, KeyError, OverflowError):
            continue  # a line cut at the front, torn at the end, or mixed by two coordinators is left out
    return notes


def active_seconds(logs: Path) -> float:
    """Time in which a worker of the run ran, from the notes; a minute of each start may be missing."""
    pairs = pairwise(time for time, _ in read_notes(logs))
    return sum(after - before for before, after in pairs if 0 < after - before < IDLE)


def _slope(notes: Notes) -> float | None:
    """Items per day over the periods in which a worker ran."""
    seconds = items = 0.0
    for (before, ended_before), (after, ended_after) in pairwise(notes):
        if 0 < after - before < IDLE and ended_after >= ended_before:
            seconds += after - before
            items += ended_after - ended_before
    return items / seconds * DAY if seconds >= 1 else None

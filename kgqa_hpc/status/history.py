"""The rate of a run: the coordinator appends the number of finished items to logs/history.jsonl every minute.

Results hold no times (equal work gives equal bytes), so rates need this file. If it is lost or damaged, only the rate
and the remaining time are unknown for a while.
"""

import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors, make_folder
from kgqa_hpc.store.regular import append, read_if_there

NAME = "history.jsonl"
IDLE = 600.0  # s; a longer gap between two notes means that no worker was running, and does not count
HOUR, DAY = 3600.0, 86_400.0
TAIL = 1 << 20  # bytes; about two weeks of notes

Notes = list[tuple[float, int]]  # seconds since 1970, items ended


class Rate(NamedTuple):
    """Items per day: over all time in which a worker ran, and over the last hour; None if unknown."""

    overall: float | None = None
    last_hour: float | None = None


def note(logs: Path, ended: int, now: float | None = None) -> None:
    """Append one line. Raises DiskFull, StoreError."""
    make_folder(logs)
    line = canonical.dumps({"time": round(time.time() if now is None else now, 1), "ended": ended})
    with disk_errors(logs / NAME):
        append(logs / NAME, line + b"\n")


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


def rate(logs: Path, now: float | None = None) -> Rate:
    """The rates computed from the notes."""
    notes = read_notes(logs, TAIL)
    newest = time.time() if now is None else now
    recent = [note for note in notes if note[0] > newest - HOUR]
    overall, last_hour = (
        items / seconds * DAY if seconds >= 1 else None for seconds, items in map(_work, (notes, recent))
    )
    return Rate(overall, last_hour)


def active_seconds(logs: Path) -> float:
    """Time in which a worker of the run ran, from the notes; a minute of each start may be missing."""
    return _work(read_notes(logs))[0]


def _work(notes: Notes) -> tuple[float, int]:
    """Seconds in which a worker ran, and the items that ended in them."""
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(notes)]
    steps = [(seconds, items) for seconds, items in steps if 0 < seconds < IDLE and items >= 0]
    return sum(seconds for seconds, _ in steps), sum(items for _, items in steps)

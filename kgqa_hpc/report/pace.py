"""How quickly items ended, from the progress notes of the run's lead: a log, not the truth."""

from __future__ import annotations

from pathlib import Path

import orjson

Notes = list[tuple[float, int]]  # seconds since 1970, items ended


def progress_notes(path: Path) -> Notes:
    """The notes, as far as they can be read."""
    if not path.exists():
        return []
    notes = []
    for line in path.read_bytes().splitlines():
        try:
            note = orjson.loads(line)
            notes.append((float(note["time"]), int(note["ended"])))
        except (ValueError, TypeError, KeyError):
            continue
    return notes


def pace(notes: Notes) -> dict[str, float] | None:
    """Items and seconds between the first and the last note."""
    seconds = notes[-1][0] - notes[0][0] if notes else 0.0
    return {"items": notes[-1][1] - notes[0][1], "seconds": seconds} if seconds > 0 else None

"""What dead processes leave behind: temp files and folders that are no longer written."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from kgqa_hpc.store import disk
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors
from kgqa_hpc.store.clock import time_at

# A temp file that was not written for so long is litter of a dead process; the longest pause between two
# writes of a living one is seconds.
LITTER_AGE = 3600.0


def sweep_temps(folder: Path, older_than: float = LITTER_AGE, prefix: str = ".") -> int:
    """Remove temp files and folders in `folder` that were not written for `older_than` seconds; returns how many.

    Ages are by the file system's clock: a node whose own clock is ahead must not remove what others still write.
    """
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return 0
    litter = [
        Path(entry.path)
        for entry in entries
        if entry.name.startswith(prefix) and entry.name.endswith(TEMP_SUFFIX)
    ]
    if not litter:
        return 0
    before = time_at(folder) - older_than
    return sum(_sweep(path, before) for path in litter)


def _sweep(path: Path, before: float) -> bool:
    # Another process may sweep at the same time.
    with disk_errors(path), suppress(FileNotFoundError):
        if max(entry.lstat().st_mtime for entry in (path, *path.rglob("*"))) < before:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                disk.unlink(path)
            return True
    return False

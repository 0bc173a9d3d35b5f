"""The time as the file system has it, the one clock that all nodes of a run share.

Nodes' clocks differ, by an hour where one is set wrong, and jump. So the age of a file is never judged by the
local clock, but against the modification time of a file that was touched just now on the same file system,
which on NFS is the server's time. docs/format.md, section 8.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store import disk
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors, make_folder

# The file system's clock is read again after so long; in between the monotonic clock carries it on.
CLOCK_AGE = 5.0


class Clock:
    """The clock of the file system that `folder` is on. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / f".clock.{secrets.token_hex(6)}{TEMP_SUFFIX}"
        self._read: tuple[float, float] | None = None

    def now(self) -> float:
        """Seconds since 1970. Raises DiskFull, StoreError."""
        read = self._read
        if read is None or time.monotonic() - read[1] > CLOCK_AGE:
            with disk_errors(self._file):
                read = self._read = (self._touched(), time.monotonic())
        return read[0] + time.monotonic() - read[1]

    def close(self) -> None:
        """Remove the file that was touched."""
        with suppress(OSError):
            disk.unlink(self._file)

    def _touched(self) -> float:
        try:
            disk.touch(self._file)
        except FileNotFoundError:
            make_folder(self._file.parent)
            disk.close(disk.open_(self._file, os.O_WRONLY | os.O_CREAT))
            disk.touch(self._file)
        return os.stat(self._file).st_mtime


@cache
def machine() -> str:
    """The same for all processes under this running kernel, containers too; empty where the system does not say.

    Host names are no identity: nodes may all be called localhost.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def time_at(folder: Path) -> float:
    """One reading: the file system's time where one may write, the local one elsewhere."""
    clock = Clock(folder)
    try:
        return clock.now() if folder.is_dir() else time.time()
    except (StoreError, OSError):
        return time.time()
    finally:
        clock.close()

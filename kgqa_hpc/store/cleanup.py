"""Cleaning after dead processes: old temp files are removed, corrupt files moved to quarantine.

Ages are measured by the clock of the file system, the only clock that all nodes of a run share: nodes' clocks may jump
or be wrong by an hour. The age of a file is the difference to the modification time of a file that was just touched on
the same file system; on NFS that is the server's time. docs/reference/format.md, section 8.
"""

import errno
import hashlib
import os
import secrets
import shutil
import socket
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store import atomic, canonical
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors, make_folder, names_if_there

# Seconds between readings of the file system's clock; the monotonic clock extends a reading until the next.
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
                try:
                    atomic.touch(self._file)
                except FileNotFoundError:
                    make_folder(self._file.parent)
                    atomic.close(atomic.open_(self._file, os.O_WRONLY | os.O_CREAT))
                    atomic.touch(self._file)
                read = self._read = (os.stat(self._file).st_mtime, time.monotonic())
        return read[0] + time.monotonic() - read[1]

    def close(self) -> None:
        """Remove the file whose times were read."""
        with suppress(OSError):
            atomic.unlink(self._file)


@cache
def machine() -> str:
    """Identity of the running kernel, equal in all its processes and containers; empty if the system does not give it.

    Host names are no identity: nodes may all be called localhost.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def time_at(folder: Path) -> float:
    """Current time of the file system if the folder is writable, else of this machine."""
    clock = Clock(folder)
    try:
        return clock.now() if folder.is_dir() else time.time()
    except (StoreError, OSError):
        return time.time()
    finally:
        clock.close()


# Seconds. A temp file not written for so long belongs to a dead process: a living process writes every few seconds.
LITTER_AGE = 3600.0


def sweep_temps(folder: Path, prefix: str = ".") -> int:
    """Remove temp files and folders in `folder` that were not written for LITTER_AGE; returns their number.

    Ages are by the file system's clock, so that a node with a fast clock does not remove files in use.
    """
    names = [
        name for name in names_if_there(folder) if name.startswith(prefix) and name.endswith(TEMP_SUFFIX)
    ]
    before, removed = time_at(folder) - LITTER_AGE if names else 0.0, 0
    for path in (folder / name for name in names):
        with disk_errors(path), suppress(FileNotFoundError):  # another process may remove it meanwhile
            if max(entry.lstat().st_mtime for entry in (path, *path.rglob("*"))) < before:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    atomic.unlink(path)
                removed += 1
    return removed


def quarantine(folder: Path, path: Path, reason: str, *, copy: bool = False) -> Path | None:
    """Move `path` into `folder`; returns its new path, or None if another process has moved it already.

    `<name>.reason.json` beside it records old path, time, process and reason. `copy` keeps the original (a journal
    whose valid lines still count); the copy's name follows from its content, so the same damage is kept once. Raises
    DiskFull, StoreError.
    """
    make_folder(folder)
    data = canonical.read_bytes(path) if copy else b""
    mark = hashlib.sha256(data).hexdigest()[:8] if copy else secrets.token_hex(4)
    target = folder / f"{path.parent.name}-{path.stem}.{mark}{path.suffix}"
    if copy and not atomic.write_file(target, data, exclusive=True):
        return target
    written = target.with_name(f"{target.name}.reason.json")
    content = {
        "format": "kgqa-reason",
        "version": 1,
        "file": os.fspath(path),
        "reason": reason,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }
    canonical.write_document(written, content)
    if copy:
        return target
    try:
        atomic.rename(path, target)
    except OSError as problem:
        with suppress(OSError):
            atomic.unlink(written)
        if problem.errno == errno.ENOENT:
            return None
        raise atomic.disk_error(path, problem) from problem
    with disk_errors(path):
        atomic.sync_folder(folder)
        atomic.sync_folder(path.parent)
    return target

"""Set a corrupt file aside with the reason beside it: its work is done again, and the file can be examined."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

from kgqa_hpc.store import atomic, canonical, disk
from kgqa_hpc.store.document import read_bytes, write_document


def quarantine(folder: Path, path: Path, reason: str) -> Path | None:
    """Move `path` into `folder`; its new path, or None when another process was faster.

    Beside it lies `<name>.reason.json` with where it was, when, who moved it and why. Raises DiskFull,
    StoreError.
    """
    target = _place(folder, path, secrets.token_hex(4))
    _write_reason(target, path, reason)
    try:
        disk.rename(path, target)
    except OSError as problem:
        with suppress(OSError):
            disk.unlink(_reason_of(target))
        if problem.errno == errno.ENOENT:
            return None
        raise atomic.disk_error(path, problem) from problem
    with atomic.disk_errors(path):
        atomic.sync_folder(folder)
        atomic.sync_folder(path.parent)
    return target


def quarantine_copy(folder: Path, path: Path, reason: str) -> Path:
    """Copy `path` into `folder` and leave it where it is (a journal whose good lines still count).

    The copy's name follows from its content: the same damage found twice is kept once.
    """
    data = read_bytes(path)
    target = _place(folder, path, canonical.bytes_digest(data)[:8])
    if atomic.write_file(target, data, exclusive=True):
        _write_reason(target, path, reason)
    return target


def _place(folder: Path, path: Path, mark: str) -> Path:
    atomic.make_folder(folder)
    return folder / f"{path.parent.name}-{path.stem}.{mark}{path.suffix}"


def _reason_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.reason.json")


def _write_reason(target: Path, path: Path, reason: str) -> None:
    content = {
        "format": "kgqa-reason",
        "version": 1,
        "file": os.fspath(path),
        "reason": reason,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }
    write_document(_reason_of(target), content)

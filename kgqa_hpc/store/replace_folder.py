"""A folder that is replaced as a whole: after `kill -9` at any moment it is the old one or the new one.

The new folder grows under a temporary name beside the target, is written through to the disk, and then
changes places with it in one system call (renameat2, RENAME_EXCHANGE). File systems that cannot exchange get
two renames; a kill between the two leaves the old folder complete beside the target, and `settle` puts it
back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kgqa_hpc.store.atomic import disk_errors, sync_folder

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `target` when the block ends well, and vanishes when it does not.

    Raises DiskFull or StoreError when the operating system refuses; `target` is then what it was.
    """
    settle(target)
    growing = target.with_name(f".{target.name}.new-{_me()}")
    try:
        with disk_errors(target):
            growing.mkdir(parents=True)
            yield growing
            _sync(growing)
            _take_place(growing, target)
    finally:
        # Holds the unfinished new folder after a failure, and the old one after an exchange.
        shutil.rmtree(growing, ignore_errors=True)


def settle(target: Path) -> None:
    """Finish what a killed process left: an old folder gets its place back, what is dead is removed."""
    old = _old(target)
    if old.exists() and not target.exists():
        os.rename(old, target)
    shutil.rmtree(old, ignore_errors=True)
    for leftover in target.parent.glob(f".{target.name}.new-*"):
        if _is_dead(leftover.name):
            shutil.rmtree(leftover, ignore_errors=True)


def _me() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


def _is_dead(name: str) -> bool:
    """Whether a leftover belongs to a process of this host that is gone; another host's cannot be known."""
    match = re.search(r"\.new-(.+)-(\d+)$", name)
    if match is None or match[1] != socket.gethostname():
        return False
    try:
        os.kill(int(match[2]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return int(match[2]) == os.getpid()


def _old(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _sync(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        else:
            sync_folder(path)
    sync_folder(folder)


def _take_place(growing: Path, target: Path) -> None:
    if not target.exists():
        os.rename(growing, target)
    elif not exchange(growing, target):
        os.rename(target, _old(target))
        os.rename(growing, target)
        shutil.rmtree(_old(target), ignore_errors=True)
    sync_folder(target.parent)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places atomically. False where the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))

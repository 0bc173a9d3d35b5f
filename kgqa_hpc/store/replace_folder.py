"""Replace a folder atomically: after `kill -9` at any moment it is the old folder or the new folder.

The new folder is filled under a random name beside the target, fsynced, and then exchanged with the target in
one system call (renameat2, RENAME_EXCHANGE). On file systems without exchange, two renames are used; a kill
between them leaves the complete old folder beside the target, and `settle` restores it. Several processes may
replace a folder at once: the last complete folder stays.

A growing folder is in use if its lock is held (same machine) or its content is recent (other machines):
process ids and host names repeat across containers.
"""

import ctypes
import errno
import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors, sync_folder
from kgqa_hpc.store.cleanup import machine, sweep_temps

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_CANNOT_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM}
# Number of attempts; other processes may replace the same folder between our check and our rename.
_TRIES = 100


@contextmanager
def replaced_folder(target: Path, require: Callable[[Path], None] = lambda standing: None) -> Iterator[Path]:
    """Yield an empty folder that becomes `target` if the block succeeds, and is removed if it fails.

    `require` raises if the existing folder must stay. It is called right before the exchange and again, on the
    replaced folder, after it (this process may have been suspended between); if the second call raises, the exchange
    is undone. Raises DiskFull or StoreError when the operating system refuses; `target` is then what it was.
    """
    settle(target)
    with disk_errors(target):
        growing, lock = _new_folder(target)
    try:
        with disk_errors(target):
            yield growing
            for path in (*sorted(growing.rglob("*")), growing):
                if path.is_file():
                    with open(path, "rb") as file:
                        os.fsync(file)
                else:
                    sync_folder(path)
            require(target)
            _take_place(growing, target)
            try:
                require(growing)  # after the exchange, `growing` is the replaced folder
            except Exception:
                if growing.exists():
                    exchange(growing, target)
                else:
                    os.rename(target, growing)
                raise
    finally:
        # This folder holds the unfinished new folder after a failure, and the old one after an exchange.
        _remove(growing)
        os.close(lock)


def settle(target: Path) -> None:
    """Recover from killed processes: restore an old folder whose target is missing, remove dead folders."""
    name = glob.escape(target.name)
    for old in sorted(target.parent.glob(f".{name}.old-*")):
        if not target.exists():
            with disk_errors(target):
                _rename_into_gap(old, target)
        _remove(old)
    for leftover in target.parent.glob(f".{name}.new-{machine() or 'unknown'}-*{TEMP_SUFFIX}"):
        with suppress(OSError):
            lock = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if _lock(lock) is True:  # no process of this machine holds it any more
                    _remove(leftover)
            finally:
                os.close(lock)
    # Leftovers of other machines are removed when they have not been written for long.
    sweep_temps(target.parent, prefix=f".{target.name}.")


def _new_folder(target: Path) -> tuple[Path, int]:
    """Create a folder beside the target, locked while this process lives. Raises OSError."""
    while True:
        name = f".{target.name}.new-{machine() or 'unknown'}-{secrets.token_hex(8)}{TEMP_SUFFIX}"
        growing = target.with_name(name)
        growing.mkdir(parents=True)
        # Until the new folder is locked, another process may treat it as the folder of a dead process.
        with suppress(FileNotFoundError):
            lock = os.open(growing, os.O_RDONLY | os.O_DIRECTORY)
            if _lock(lock) is not False and growing.exists():
                return growing, lock
            os.close(lock)


def _remove(path: Path) -> None:
    """Remove a folder with its content; of a symbolic link only the link."""
    if path.is_symlink():
        with suppress(OSError):
            path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def _lock(fd: int) -> bool | None:
    """Lock a folder: True if locked now, False if another process holds the lock, None without support of locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _take_place(growing: Path, target: Path) -> None:
    for _ in range(_TRIES):
        if _rename_into_gap(growing, target) or exchange(growing, target):
            break
        old = target.with_name(f".{target.name}.old-{secrets.token_hex(8)}")
        try:
            os.rename(target, old)
        except FileNotFoundError:
            continue
        placed = _rename_into_gap(growing, target)
        _remove(old)
        if placed:
            break
    else:
        raise StoreError(f"{target}: others replace it all the time", "run it again when they are done")
    sync_folder(target.parent)


def _rename_into_gap(source: Path, target: Path) -> bool:
    """Rename `source` to the unused name `target`; False if `target` exists, or `source` does not."""
    try:
        if not target.exists():
            os.rename(source, target)
            return True
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise
    return False


def exchange(folder: Path, counterpart: Path) -> bool:
    """Let two folders change places atomically. False where the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(folder), _AT_FDCWD, os.fsencode(counterpart), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT_EXCHANGE or code == errno.ENOENT:
        return False
    raise OSError(code, os.strerror(code), os.fspath(counterpart))

"""File system calls of the store, and atomic writes: a file appears complete or not at all.

An atomic write fills and fsyncs a temp file beside the target, and gives it the target's name: by `rename` if the
newest writer wins, by `link` if the first writer wins; finally the folder is fsynced. Errors of the operating system
become DiskFull or StoreError with path and cure, and the temp file is removed. docs/reference/format.md, section 2.

All calls that change files go through the functions `close` to `write_all`, which tests replace by failing ones.

The readers open only regular files (text/streams.py), because another user may have put others into a run folder.
`read_if_there` is for optional files (states, logs, history): an error of a network file system while another node
replaces such a file counts as "absent now".
"""

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from kgqa_hpc.errors import DiskFull, StoreError
from kgqa_hpc.text.streams import NotRegular as NotRegular
from kgqa_hpc.text.streams import open_append as open_append
from kgqa_hpc.text.streams import open_regular as open_regular

Bytes = bytes | bytearray | memoryview

close = os.close
write = os.write
pwrite = os.pwrite
truncate = os.ftruncate
fsync = os.fsync
rename = os.rename
link = os.link
unlink = os.unlink
mkdir = os.mkdir
touch = os.utime  # without a time argument, utime uses the file system's clock
open_ = partial(os.open, mode=0o666)  # the umask decides who may read and write a new file


def write_all(fd: int, data: Bytes, offset: int | None = None) -> None:
    """Write all bytes, at `offset` or at the file's position, repeating short writes."""
    remaining, start = memoryview(data), offset
    while remaining:
        written = write(fd, remaining) if start is None else pwrite(fd, remaining, start)
        remaining, start = remaining[written:], None if start is None else start + written


# Error numbers of a missing file, on network file systems too.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
# Error numbers of a file that another process is replacing, and of transient errors.
ABSENT_NOW = (*GONE, errno.EIO, errno.EACCES, errno.EPERM, errno.ELOOP)


TEMP_SUFFIX = ".kgqa-tmp"
# Seconds. A guard file exists for milliseconds; if it is older than this, its owner is dead.
GUARD_AGE = 60.0

_FULL = {
    errno.ENOSPC: "free some space, then run the same command again",
    errno.EDQUOT: "your quota is used up: free some space, then run the same command again",
    errno.EROFS: "the file system is read-only: choose another folder or have it mounted writable",
    errno.EIO: "the device reports an I/O error: check it, then run the same command again",
    errno.EFBIG: "the file size limit is reached: raise it (ulimit -f), then run the same command again",
}
# Errors of file systems without hard links (FAT, some FUSE and network file systems).
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK, errno.EINVAL}


def disk_error(path: Path, problem: OSError) -> StoreError:
    """Convert an OSError about `path` to DiskFull or StoreError."""
    plain = problem.errno is None or isinstance(problem, NotRegular)
    text = f"{path}: {problem.strerror or problem if plain else os.strerror(problem.errno or 0)}"
    if problem.errno in (errno.EMFILE, errno.ENFILE):
        return StoreError(text, "raise the limit (ulimit -n), then run the same command again")
    if problem.errno == errno.EISDIR:
        return StoreError(text, "name a file, or move the folder elsewhere")
    if problem.errno in _FULL:
        return DiskFull(text, f"{_FULL[problem.errno]}; everything committed so far is whole")
    return StoreError(text, "everything committed so far is whole; mend it, then run the same command again")


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn each OSError of the block into DiskFull or StoreError about `path`."""
    try:
        yield
    except OSError as problem:
        raise disk_error(path, problem) from problem


def write_file(path: Path, data: Bytes, *, exclusive: bool = False, durable: bool = True) -> bool:
    """Commit `data` as the file `path`.

    `exclusive`: the first writer wins; returns False, and changes nothing, when the file is there already.
    `durable=False` leaves out the fsyncs, for files that need not survive a power cut (leases).
    Raises DiskFull or StoreError; then no temp file is left and `path` is as it was.
    """
    with temp_file(path) as (fd, temp), disk_errors(path):
        write_all(fd, data)
        return commit(fd, temp, path, exclusive=exclusive, durable=durable)


@contextmanager
def temp_file(target: Path) -> Iterator[tuple[int, Path]]:
    """A new temp file beside `target`, open for reading and writing; the context closes and removes it at the end."""
    temp = target.with_name(f".{target.name}.{secrets.token_hex(6)}{TEMP_SUFFIX}")
    with disk_errors(target):
        fd = open_(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        yield fd, temp
    finally:
        # Clean-up must not replace the first error: a temp file that cannot be removed is swept later.
        with suppress(OSError):
            close(fd)
        with suppress(OSError):
            unlink(temp)


def commit(fd: int, temp: Path, target: Path, *, exclusive: bool, durable: bool = True) -> bool:
    """Give the finished temp file its name. False when `exclusive` and the name is taken. Raises OSError."""
    if durable:
        fsync(fd)
    if not exclusive:
        rename(temp, target)
    elif not link_new(temp, target):
        return False
    if durable:
        sync_folder(target.parent)
    return True


def link_new(temp: Path, target: Path) -> bool:
    """Give `temp` the name `target` unless that is taken (False). Raises OSError.

    Uses a hard link, or on file systems without hard links a rename that only the creator of a guard file may do.
    """
    try:
        link(temp, target)
    except FileExistsError:
        # NFS may lose the answer to a link that succeeded and repeat it, which fails: then the file has both names.
        return os.stat(temp).st_nlink == 2 and os.path.samefile(temp, target)
    except OSError as problem:
        if problem.errno not in _NO_LINKS:
            raise
        return _guarded_rename(temp, target)
    return True


def _guarded_rename(temp: Path, target: Path) -> bool:
    """Rename so that the first writer wins, without hard links: only the creator of the guard file may rename.

    A guard whose owner died is removed after GUARD_AGE. Should two writers then both rename, the later
    whole file replaces the earlier whole file: still never a torn one.
    """
    guard = target.with_name(f".{target.name}.guard{TEMP_SUFFIX}")
    since = time.monotonic()
    while not target.exists():
        try:
            close(open_(guard, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            if time.monotonic() - since > GUARD_AGE:
                with suppress(FileNotFoundError):
                    unlink(guard)
                since = time.monotonic()
            time.sleep(0.05)
            continue
        try:
            if not target.exists():
                rename(temp, target)
                return True
        finally:
            with suppress(OSError):
                unlink(guard)
    return False


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raises OSError."""
    fd = open_(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fsync(fd)
    except OSError as problem:
        # Some network file systems cannot fsync a folder and make names durable by themselves.
        if problem.errno not in (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(fd)


def exists(path: Path) -> bool:
    """Whether `path` is there. Raises StoreError when the file system cannot tell."""
    with disk_errors(path):
        try:
            os.stat(path)
        except OSError as problem:
            if problem.errno in GONE:
                return False
            raise
    return True


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably. Raises DiskFull or StoreError."""
    with disk_errors(folder):
        if folder.is_dir():
            return
    make_folder(folder.parent)
    with disk_errors(folder):
        try:
            mkdir(folder)
        except FileExistsError:
            if not folder.is_dir():
                raise StoreError(f"{folder}: is in the way: not a folder", "move it elsewhere") from None
        sync_folder(folder.parent)


def append(path: Path, data: bytes) -> None:
    """Append `data` to a regular file, which is created if it is missing. Raises NotRegular, OSError."""
    with open(open_append(path), "ab", buffering=0) as file:
        file.write(data)


def read_with_state(path: Path, limit: int, *, last: bool = False) -> tuple[bytes, os.stat_result]:
    """The first `limit` bytes of a regular file (-1: all), with `last` the last bytes; and the file's stat result.

    Raises OSError.
    """
    for attempts_left in (2, 1, 0):  # on NFS the handle of a replaced file is stale: open the name again
        try:
            with open(open_regular(path), "rb") as file:
                state = os.fstat(file.fileno())
                if last:
                    file.seek(max(state.st_size - limit, 0))
                # Request no more bytes than the file holds, because Python allocates them all before it reads.
                return file.read(min(limit, max(state.st_size, 1 << 16))), state
        except OSError as problem:
            if problem.errno != errno.ESTALE or not attempts_left:
                raise
    raise AssertionError("unreachable")


def read_if_there(path: Path, limit: int = 1 << 24) -> bytes | None:
    """The last `limit` bytes of an optional file; None if it is absent now."""
    try:
        return read_with_state(path, limit, last=True)[0]
    except OSError as problem:
        if isinstance(problem, NotRegular) or problem.errno in ABSENT_NOW:
            return None
        raise


def irregular(folder: Path) -> Path | None:
    """An entry below the folder that is neither file nor folder (reading it may block); None if there is none."""
    with suppress(OSError):  # absent now, or just being replaced
        for path in folder.rglob("*"):
            if not (path.is_file() or path.is_dir()) and path.exists():
                return path
    return None


def names_if_there(folder: Path) -> list[str]:
    """The names in a folder, sorted; none when it is absent now."""
    try:
        return sorted(os.listdir(folder))
    except OSError as problem:
        if problem.errno in ABSENT_NOW:
            return []
        raise

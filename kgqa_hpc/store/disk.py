"""File system calls of the store.

All calls that change files go through the functions `close` to `pwrite_all`, which tests replace by failing ones.

The readers open only regular files (text/streams.py), because another user may have put others into a run folder.
`read_if_there` is for optional files (states, logs, history): an error of a network file system while another node
replaces such a file counts as "absent now".
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

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


def open_(path: Path, flags: int) -> int:
    """Open a file and return its descriptor; the umask decides who may read and write a new file."""
    return os.open(path, flags, 0o666)


def write_all(fd: int, data: Bytes) -> None:
    """Write all bytes, repeating short writes."""
    remaining = memoryview(data)
    while (written := write(fd, remaining)) < len(remaining):
        remaining = remaining[written:]


def pwrite_all(fd: int, data: Bytes, offset: int) -> None:
    """Write all bytes at `offset`, repeating short writes."""
    remaining = memoryview(data)
    while remaining:
        written = pwrite(fd, remaining, offset)
        remaining, offset = remaining[written:], offset + written


# Error numbers of a missing file, on network file systems too.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
# Error numbers of a file that another process is replacing, and of transient errors.
ABSENT_NOW = (*GONE, errno.EIO, errno.EACCES, errno.EPERM, errno.ELOOP)


def append(path: Path, data: bytes) -> None:
    """Append `data` to a regular file, which is created if it is missing. Raises NotRegular, OSError."""
    with open(open_append(path), "ab", buffering=0) as file:
        file.write(data)


def read_with_state(path: Path, limit: int = -1, *, last: bool = False) -> tuple[bytes, os.stat_result]:
    """The first `limit` bytes of a regular file (-1: all), or the last ones, and its stat result. Raises OSError."""
    for attempts_left in (2, 1, 0):  # on NFS the handle of a replaced file is stale: open the name again
        try:
            with open(open_regular(path), "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                if last:
                    file.seek(max(state.st_size - limit, 0))
                return (file.readall() if limit < 0 else _read_up_to(file.fileno(), limit)), state
        except OSError as problem:
            if problem.errno != errno.ESTALE or not attempts_left:
                raise
    raise AssertionError("unreachable")


def read_if_there(path: Path, limit: int = 1 << 24) -> bytes | None:
    """The last `limit` bytes of an optional file; None if it is absent now."""
    read = read_if_there_with_state(path, limit)
    return None if read is None else read[0]


def read_if_there_with_state(path: Path, limit: int = 1 << 24) -> tuple[bytes, os.stat_result] | None:
    """The last `limit` bytes of an optional file and its stat result; None if it is absent now."""
    try:
        return read_with_state(path, limit, last=True)
    except OSError as problem:
        if isinstance(problem, NotRegular) or problem.errno in ABSENT_NOW:
            return None
        raise


def irregular(folder: Path) -> Path | None:
    """An entry below the folder that is neither file nor folder (reading it may block); None if there is none."""
    with suppress(OSError), os.scandir(folder) as entries:  # absent now, or just being replaced
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                continue
            if not entry.is_dir(follow_symlinks=False):
                if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry):
                    return Path(entry)
            elif (below := irregular(Path(entry))) is not None:
                return below
    return None


def names_if_there(folder: Path) -> list[str]:
    """The names in a folder, sorted; none when it is absent now."""
    try:
        return sorted(os.listdir(folder))
    except OSError as problem:
        if problem.errno in ABSENT_NOW:
            return []
        raise


def _read_up_to(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(fd, min(limit, 1 << 20))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)

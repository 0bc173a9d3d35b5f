"""Files that anybody may have put into a run folder.

Only regular files are opened, never a FIFO, a socket or a device, which would block for ever. What is appended to
is no link either, which could lead to any file of the reader's. `read_if_there`
is for what a run can do without (states, logs, history): whatever a network file system answers while another
node replaces such a file means "absent now".
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

# What "it is not there" may look like, on network file systems too.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
# What may be said of a file that others replace just now, or of a file system with a transient error.
ABSENT_NOW = (*GONE, errno.EIO, errno.EACCES, errno.EPERM, errno.ELOOP)
# NFS: a handle to a file that was replaced is stale; opening the name again gets the new file.
REOPENED = 3


class NotRegular(OSError):
    """The name is that of a FIFO, a socket, a device or a folder."""


def open_regular(path: Path) -> int:
    """A descriptor for reading. Raises NotRegular, or OSError as the system says it."""
    return _open(path, os.O_RDONLY)


def append(path: Path, data: bytes) -> None:
    """Add `data` to the end of a regular file, which is made when it is missing. Raises NotRegular, OSError."""
    fd = open_append(path)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def open_append(path: Path) -> int:
    """A descriptor for appending. Raises NotRegular, also for a link, or OSError as the system says it."""
    return _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)


def _open(path: Path, flags: int) -> int:
    # O_NONBLOCK: opening a FIFO that nobody holds must return, so that it can be refused.
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        link = problem.errno == errno.ELOOP and flags & os.O_NOFOLLOW
        if problem.errno == errno.ENXIO or link:  # a socket, a FIFO that nobody reads, a link
            raise NotRegular(errno.EINVAL, "not a regular file", os.fspath(path)) from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotRegular(errno.EINVAL, "not a regular file", os.fspath(path))
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_with_state(path: Path, limit: int = -1) -> tuple[bytes, os.stat_result]:
    """The first `limit` bytes of a regular file (all: -1) and its state. Raises OSError."""
    for attempt in range(REOPENED):
        try:
            with open(open_regular(path), "rb", buffering=0) as file:
                state = os.fstat(file.fileno())
                return (file.readall() if limit < 0 else _read_up_to(file.fileno(), limit)), state
        except OSError as problem:
            if problem.errno != errno.ESTALE or attempt == REOPENED - 1:
                raise
    raise AssertionError("unreachable")


def read_if_there(path: Path, limit: int = 1 << 24) -> bytes | None:
    """At most the last `limit` bytes, or None when the file is absent now."""
    found = read_if_there_with_state(path, limit)
    return None if found is None else found[0]


def read_if_there_with_state(path: Path, limit: int = 1 << 24) -> tuple[bytes, os.stat_result] | None:
    """The same with the file's state."""
    try:
        with open(open_regular(path), "rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            file.seek(max(state.st_size - limit, 0))
            return _read_up_to(file.fileno(), limit), state
    except NotRegular:
        return None
    except OSError as problem:
        if problem.errno in ABSENT_NOW:
            return None
        raise


def irregular(folder: Path) -> Path | None:
    """What lies below a folder and is neither file nor folder, so that reading it might never end."""
    with suppress(OSError), os.scandir(folder) as entries:  # absent now, or just being replaced
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                continue
            if not entry.is_dir(follow_symlinks=False):
                if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry):
                    return Path(entry)
            elif (found := irregular(Path(entry))) is not None:
                return found
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

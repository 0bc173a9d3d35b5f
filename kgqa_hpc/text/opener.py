"""Functions that open regular files only: a FIFO, a socket or a device could block forever or never end.

For appending, symbolic links are refused too, because they could lead to any file of the user.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegular(OSError):
    """The path is a FIFO, a socket, a device or a folder."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A file descriptor, for reading by default. Raises NotRegular, or the system's OSError."""
    # O_NONBLOCK: opening a FIFO without a peer returns at once, so that it can be refused.
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as problem:
        link = problem.errno == errno.ELOOP and flags & os.O_NOFOLLOW
        if problem.errno == errno.ENXIO or link:  # a socket, a FIFO without a reader, a symbolic link
            raise NotRegular(errno.EINVAL, "not a regular file", os.fspath(path)) from None
        raise
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise NotRegular(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise NotRegular(errno.EINVAL, "not a regular file", os.fspath(path))


def open_bytes(path: Path) -> BinaryIO:
    """A regular file, opened for buffered reading. Raises as `open_regular`."""
    return open(open_regular(path), "rb")


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file. Raises NotRegular, or the system's OSError."""
    with open_bytes(path) as file:
        return file.read()


def open_append(path: Path) -> int:
    """A file descriptor for appending. Raises NotRegular, also for a symbolic link, or the system's OSError."""
    return open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)

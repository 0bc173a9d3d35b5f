"""The file-system calls of the store, one thin function each, so that tests can stand in front of every one.

`watch` installs a probe that is told of each call before it happens. A probe may count, raise an OSError
(the call then fails as the operating system would fail it), kill the process, or return a number: a write
is then cut short to so many bytes. Without a probe the functions are the ones of `os`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Bytes = bytes | bytearray | memoryview
Probe = Callable[[str, str], int | None]

_probe: Probe | None = None


@contextmanager
def watch(probe: Probe) -> Iterator[None]:
    """Call `probe(call, path or file descriptor)` before every file-system call of the store."""
    global _probe
    previous, _probe = _probe, probe
    try:
        yield
    finally:
        _probe = previous


def _before(call: str, where: object) -> int | None:
    return None if _probe is None else _probe(call, str(where))


def open_(path: Path, flags: int, mode: int = 0o666) -> int:
    _before("open", path)
    return os.open(path, flags, mode)


def close(fd: int) -> None:
    # The descriptor is gone whatever close reports (Linux), so a probe's refusal comes after the real call.
    os.close(fd)
    _before("close", fd)


def write(fd: int, data: memoryview) -> int:
    limit = _before("write", fd)
    return os.write(fd, data if limit is None else data[:limit])


def pwrite(fd: int, data: memoryview, offset: int) -> int:
    limit = _before("pwrite", fd)
    return os.pwrite(fd, data if limit is None else data[:limit], offset)


def truncate(fd: int, size: int) -> None:
    _before("truncate", fd)
    os.ftruncate(fd, size)


def fsync(fd: int) -> None:
    _before("fsync", fd)
    os.fsync(fd)


def rename(source: Path, target: Path) -> None:
    _before("rename", target)
    os.rename(source, target)


def link(source: Path, target: Path) -> None:
    _before("link", target)
    os.link(source, target)


def unlink(path: Path) -> None:
    _before("unlink", path)
    os.unlink(path)


def mkdir(path: Path) -> None:
    _before("mkdir", path)
    os.mkdir(path)


def touch(target: int | Path) -> None:
    """Set the modification time to now, as the file system's own clock has it."""
    _before("utime", target)
    os.utime(target)


def write_all(fd: int, data: Bytes) -> None:
    """Write every byte, however short the single writes fall."""
    rest = memoryview(data)
    while (written := write(fd, rest)) < len(rest):
        rest = rest[written:]


def pwrite_all(fd: int, data: Bytes, offset: int) -> None:
    """Write every byte at `offset`, however short the single writes fall."""
    rest = memoryview(data)
    while rest:
        written = pwrite(fd, rest, offset)
        rest, offset = rest[written:], offset + written

"""The file-system calls by which the store changes anything, under names of its own: tests replace them one by one."""

from __future__ import annotations

import os
from pathlib import Path

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
touch = os.utime  # without times: now, as the file system's own clock has it


def open_(path: Path, flags: int) -> int:
    """A descriptor; a new file may be read and written by whom the umask allows."""
    return os.open(path, flags, 0o666)


def write_all(fd: int, data: Bytes) -> None:
    """Write every byte, however short the single writes fall."""
    remaining = memoryview(data)
    while (written := write(fd, remaining)) < len(remaining):
        remaining = remaining[written:]


def pwrite_all(fd: int, data: Bytes, offset: int) -> None:
    """Write every byte at `offset`, however short the single writes fall."""
    remaining = memoryview(data)
    while remaining:
        written = pwrite(fd, remaining, offset)
        remaining, offset = remaining[written:], offset + written

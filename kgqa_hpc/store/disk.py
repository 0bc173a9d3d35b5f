"""All file system calls with which the store changes files, as functions that tests can replace by failing ones."""

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

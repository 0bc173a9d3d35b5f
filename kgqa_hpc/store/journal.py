"""The journal: a line for the state of an item after each answer, until the shard's result is committed.

A line is the CRC-32 of its JSON (8 hex digits), a space, the JSON, a newline; the first one is the header.
Every append goes to the kernel at once, so `kill -9` loses nothing, and to the disk with the next `sync`, so a power
cut loses at most the time between two. A journal has one writer, the process that created it; a successor reads its
predecessors' journals and opens its own, under the next number: shard-000000.w0.journal, .w1., …
docs/reference/format.md, section 7.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import CorruptFile, StoreError
from kgqa_hpc.store import atomic, canonical

KIND = "journal"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Damage:
    """The parts of one journal that a reader skipped.

    `torn`: bytes of an unfinished last line, which a killed writer leaves. `lines`: numbers of lines with a wrong
    checksum. `refused`: the reason why the whole journal is ignored; empty if it counts.
    """

    path: Path
    torn: int = 0
    lines: tuple[int, ...] = ()
    refused: str = ""

    def __bool__(self) -> bool:
        """Whether the damage points to a broken disk; a torn last line does not."""
        return bool(self.lines or self.refused)

    def __str__(self) -> str:
        damage = f"{len(self.lines)} damaged lines {list(self.lines[:10])}, {self.torn} bytes cut off"
        return f"{self.path}: {self.refused or damage}"


class Journal:
    """An open journal: the only writer of its file.

    The constructor creates the file; it raises FileExistsError if the file exists (`open_next` then tries the
    next number). `header` identifies run, pass and shard. An append is durable after the next `sync`.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        try:
            self._fd = atomic.open_(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        except FileExistsError:
            raise
        except OSError as problem:
            raise atomic.disk_error(path, problem) from problem
        self._named = self._unsynced = False
        self._write(canonical.dumps({**header, "format": f"kgqa-{KIND}", "version": VERSION}))

    def append(self, record: Mapping[str, Any], **more: Any) -> bytes:
        """Append a record, with `more` members at the end of its line; returns the record's JSON without them.

        Raises DiskFull or StoreError; the journal then refuses further lines.
        """
        rendered = canonical.dumps(record)
        self._write(b"".join((rendered[:-1], b",", canonical.dumps(more)[1:])) if more else rendered)
        self._unsynced = True
        return rendered

    def sync(self) -> None:
        """Force all appended lines to disk. Raises DiskFull or StoreError; the journal then refuses further lines."""
        if self._unsynced:
            self._change(lambda: atomic.fsync(self._fd))
            if not self._named:
                self._change(lambda: atomic.sync_folder(self.path.parent))
                self._named = True
        self._unsynced = False

    def close(self) -> None:
        """Sync and close. Idempotent."""
        if self._fd >= 0:
            self.sync()
            self._close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, json: bytes) -> None:
        self._change(lambda: atomic.write_all(self._fd, b"%08x %b\n" % (zlib.crc32(json), json)))

    def _change(self, call: Callable[[], object]) -> None:
        """Write or fsync by `call`; if that fails, close the journal: a torn tail or lost pages may be in the file.

        There is no second attempt: the next process reads the intact entries and opens its own journal.
        """
        if self._fd < 0:
            raise StoreError(f"{self.path}: the journal is closed")
        try:
            call()
        except OSError as problem:
            self._close()
            raise atomic.disk_error(self.path, problem) from problem

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        with suppress(OSError):
            atomic.close(fd)


def open_next(folder: Path, shard: str, header: Mapping[str, Any]) -> tuple[Journal, list[Path]]:
    """The shard's next journal in `folder`, and the paths of all before it.

    The number is found by exclusive creation, not by listing: `folder` may hold tens of thousands of files,
    and only creation is never answered from a network file system's cache.
    """
    atomic.make_folder(folder)
    number = len(journals_of(folder, shard))
    while True:
        try:
            journal = Journal(journal_path(folder, shard, number), header)
        except FileExistsError:
            number += 1
            continue
        return journal, [journal_path(folder, shard, before) for before in range(number)]


def journal_path(folder: Path, shard: str, number: int) -> Path:
    """Path of the shard's journal with this number."""
    return folder / f"{shard}.w{number}.journal"


def journals_of(folder: Path, shard: str) -> list[Path]:
    """All journals of a shard, oldest first. Numbers have no gaps, so the folder is not listed."""
    journals: list[Path] = []
    while atomic.exists(path := journal_path(folder, shard, len(journals))):
        journals.append(path)
    return journals


def remove_journals(folder: Path, shard: str) -> None:
    """Remove all journals of a shard that has a result, the newest first: the numbers never have a gap."""
    for path in reversed(journals_of(folder, shard)):
        with atomic.disk_errors(path), suppress(FileNotFoundError):
            atomic.unlink(path)


def read_journal(path: Path, expected_header: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Damage]:
    """Return the complete records of a journal, and the damage.

    A journal whose header is damaged, or differs from `expected_header` in one of its keys, yields no record, and
    `Damage.refused` gives the reason; a journal without a complete header line counts as a torn line only. Raises
    NewerFormat; StoreError when it is missing or unreadable.
    """
    return _read(path, canonical.read_bytes(path), expected_header)


def read_on(path: Path, start: int, expected: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return the complete records from byte `start`, and the offset to continue at; for callers that only count.

    With `start` 0 the header is checked: a journal that does not match `expected` yields no records. Raises
    OSError.
    """
    with open(atomic.open_regular(path), "rb") as file:
        file.seek(start)
        data = file.read()
    records, damage = _read(path, data, None if start else expected)
    return records, start + len(data) - damage.torn


def _read(path: Path, data: bytes, expected: Mapping[str, Any] | None) -> tuple[list[dict[str, Any]], Damage]:
    """The records and the damage in `data`, which begins with the header if `expected` (its content) is given."""
    *lines, tail = data.split(b"\n")
    if expected is not None and lines and (refused := _refusal(path, lines.pop(0), expected)):
        return [], Damage(path, torn=len(tail), refused=refused)
    parsed = [record if (record := _parse(line)) and "id" in record else None for line in lines]
    bad = tuple(number for number, record in enumerate(parsed, 2) if record is None)
    return [record for record in parsed if record is not None], Damage(path, len(tail), bad)


def _refusal(path: Path, first_line: bytes, expected: Mapping[str, Any]) -> str:
    """The reason why a journal with this first line is ignored; empty if it counts."""
    if (header := _parse(first_line)) is None:
        return "the header line is damaged"
    try:
        canonical.require_kind(path, header, KIND, VERSION)
    except CorruptFile as problem:
        return problem.message
    for key, value in expected.items():
        if header.get(key) != value:
            return f"belongs to another {key}: {header.get(key)!r} instead of {value!r}"
    return ""


def _parse(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a journal line; None if its checksum is wrong."""
    check, data = line[:9], line[9:]
    if check != b"%08x " % zlib.crc32(data):
        return None
    try:
        value = canonical.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None

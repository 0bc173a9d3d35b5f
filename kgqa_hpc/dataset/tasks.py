"""Tasks that anybody who sees a folder can do: what is to be done is planned in it, and what is made carries proof of
which plan it is of.

A task makes a folder of files under a temporary name and renames it when all are there, so it is done as a whole or
not at all, whoever is killed, and doing it twice changes nothing. Its manifest has the size and the CRC-32 of every
file under a checksum that is bound to the plan and the task.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import orjson
from isal.isal_zlib import crc32

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import TEMP_SUFFIX, disk_errors, exists, write_file

PLAN, MANIFEST = "plan", "manifest"
_SUM = 32  # characters of the checksum before a manifest

BLOCK = 1 << 20  # bytes that are read at once

Files = dict[str, dict[str, int]]  # by name: bytes and crc32


class Tasks(Protocol):
    """Numbered tasks in a folder."""

    NAME: ClassVar[str]  # of the folder
    folder: Path

    @property
    def number(self) -> int:
        """How many tasks there are."""

    def is_done(self, task: int) -> bool:
        """Whether nobody needs to do it any more."""

    def do(self, task: int) -> None:
        """Do it. Raises StoreError, DiskFull."""


class FolderTasks(ABC):
    """Tasks that make a folder of files each; a subclass says what is in it."""

    NAME: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def plan(cls, beside: Path, tasks: list[Any], **about: Any) -> Self:
        """Plan `tasks` (plain data) in a folder of their own; the same plan again keeps what is done of it."""
        planned = cls(beside / cls.NAME)
        with disk_errors(planned.folder):
            planned.folder.mkdir(exist_ok=True)  # never `beside` itself, which others may have removed
        write_file(planned.folder / PLAN, orjson.dumps({"tasks": tasks, **about}))
        return planned

    @cached_property
    def _read(self) -> bytes:
        with disk_errors(self.folder):
            return (self.folder / PLAN).read_bytes()

    @cached_property
    def about(self) -> dict[str, Any]:
        """What was planned."""
        document: dict[str, Any] = orjson.loads(self._read)
        return document

    @property
    def number(self) -> int:
        return len(self.about["tasks"])

    def is_done(self, task: int) -> bool:
        return self.files(task) is not None

    def place(self, task: int) -> Path:
        """The folder that a task makes."""
        return self.folder / f"{task:05d}"

    def do(self, task: int) -> None:
        temp = self.folder / f".{task:05d}.{secrets.token_hex(6)}{TEMP_SUFFIX}"
        with disk_errors(self.folder):
            temp.mkdir()
            try:
                known = self.make(self.about["tasks"][task], temp)
                self._seal(temp, task, known)
                self._commit(temp, task)
            finally:
                shutil.rmtree(temp, ignore_errors=True)

    @abstractmethod
    def make(self, task: Any, folder: Path) -> dict[str, int]:
        """Write the files of a task; returns the CRC-32 of those where it is known."""

    def files(self, task: int) -> Files | None:
        """What a task made; None while it is not done, or not as this plan wants it."""
        place = self.place(task)
        if not exists(place / MANIFEST):
            return None
        with disk_errors(place):
            data = (place / MANIFEST).read_bytes()
            if data[:_SUM] != self._sum(task, data[_SUM:]):
                return None
            found: Files = orjson.loads(data[_SUM:])
            sizes = {path.name: path.stat().st_size for path in place.iterdir() if path.name != MANIFEST}
        return found if sizes == {name: one["bytes"] for name, one in found.items()} else None

    def found(self, task: int) -> Files:
        """What a task made. Raises StoreError when it is not done."""
        files = self.files(task)
        if files is None:
            raise StoreError(f"{self.place(task)}: is missing or not what was written there", "merge again")
        return files

    def check(self) -> None:
        """Compare all files with their checksums. Raises StoreError; the task is then to be done again."""
        for task in range(self.number):
            for name, one in self.found(task).items():
                deque(self.blocks(task, name, one["crc32"]), maxlen=0)

    def blocks(self, task: int, name: str, crc: int) -> Iterator[memoryview]:
        """The bytes of a file that a task made, each block until the next; `crc` is what its manifest says.

        Raises StoreError at the end when they are not what was written; the task is then to be done again.
        """
        found = 0
        for block in blocks_of(self.place(task) / name):
            found = crc32(block, found)
            yield block
        if found != crc:
            raise self.damaged(task, name)

    def damaged(self, task: int, name: str) -> StoreError:
        """Have the task done again; returns the error that says why. Its files stay for who is reading them."""
        (self.place(task) / MANIFEST).unlink(missing_ok=True)
        return StoreError(f"{self.place(task) / name}: is not what was written there", "merge again")

    def _seal(self, temp: Path, task: int, known: dict[str, int]) -> None:
        files = {}
        for path in sorted(temp.iterdir()):
            found = known.get(path.name)
            if found is None:
                found = reduce(lambda sum, block: crc32(block, sum), blocks_of(path), 0)
            files[path.name] = {"bytes": path.stat().st_size, "crc32": found}
        body = orjson.dumps(files)
        (temp / MANIFEST).write_bytes(self._sum(task, body) + body)

    def _commit(self, temp: Path, task: int) -> None:
        """The first one's folder stays, unless it is of another plan or damaged."""
        place = self.place(task)
        for _ in range(100):
            try:
                os.rename(temp, place)
                return
            except OSError:
                if self.is_done(task):
                    return
                if not exists(place):
                    raise
            shutil.rmtree(place, ignore_errors=True)
        raise StoreError(f"{place}: others write it all the time", "merge again")

    def _sum(self, task: int, body: bytes) -> bytes:
        digest = hashlib.blake2b(self._digest, digest_size=_SUM // 2, key=task.to_bytes(4, "big"))
        digest.update(body)
        return digest.hexdigest().encode()

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.blake2b(self._read).digest()


def blocks_of(path: Path) -> Iterator[memoryview]:
    """The bytes of a file, each block until the next."""
    room = memoryview(bytearray(BLOCK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(room):
            yield room[:size]

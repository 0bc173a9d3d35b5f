"""The files of a dataset in parts, each a task of its own: a stretch of a file's JSON lines, and its Parquet.

Where parts begin and end follows from the rows alone (`files.cuts`), before anything is written, so who writes which
changes no byte. When all are there, JSON lines are joined and Parquet gets its final names. A task writes lines only
where they differ from those in the spools; the others are joined from the spools themselves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from kgqa_hpc.dataset.files import Buffer, ParquetFiles, RecordFiles, part_name, write_all
from kgqa_hpc.dataset.final_lines import ACCEPTED_FILE, LOST_FILE, REJECTED_FILE, FinalLines, Lines
from kgqa_hpc.dataset.ordered import SortedPieces
from kgqa_hpc.dataset.tasks import Files, FolderTasks, blocks_of
from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import link_new

FILES = (ACCEPTED_FILE, REJECTED_FILE, LOST_FILE)
SUM = "crc32"  # a task's file: the checksum of its lines, which are those in the spools
_Made = tuple[int, Files]  # a task and what it made


class DatasetParts(FolderTasks):
    """Tasks are (file, [first row, row behind the last]); where there is an order, (file, slices of sorted pieces).

    There are none for lost.jsonl, whose lines all lie in the spools.
    """

    NAME = "parts"

    @cached_property
    def _final(self) -> FinalLines:
        return FinalLines(self.folder.parent / self.about["final"], self.about["digest"])

    def make(self, task: Any, folder: Path) -> dict[str, int]:
        name, where = task
        parts = self._final.parts if name == ACCEPTED_FILE else ()
        if self.about["ordered"] or not self._final.lie_ready(name, *where):
            with RecordFiles(folder, name, self._final.schema, parts) as files:
                for lines in self._lines(name, where):
                    files.add(*lines)
            return {f"{name}.jsonl": files.lines.sum}
        found = 0
        with ParquetFiles(folder, name, self._final.schema, parts) as parquet:
            for lines in self._lines(name, where):
                found = crc32(lines[0], found)
                parquet.add(*lines)
        (folder / SUM).write_text(str(found), encoding="ascii")
        return {}

    def _lines(self, name: str, where: list[Any]) -> Iterator[Lines]:
        if self.about["ordered"]:
            return SortedPieces(self.folder.parent / SortedPieces.NAME).merged(name, where)
        return self._final.of(name, *where)

    def assemble(self, folder: Path, keep: bool) -> dict[str, str]:
        """Put the finished parts into the dataset's folder, through to the disk; returns sha256 by name.

        Unless they are to `keep`, spools and what tasks wrote are removed when they are no longer needed. Raises
        StoreError when a part is missing or not what was written; its task is then to be done again.
        """
        made: dict[str, list[_Made]] = {name: [] for name in FILES}
        for task, (name, _) in enumerate(self.about["tasks"]):
            made[name].append((task, self.found(task)))
        parquet = list(self._parquet(made[ACCEPTED_FILE] + made[REJECTED_FILE]))
        for part, own, (task, _) in parquet:
            link_new(self.place(task) / own, folder / part)
        with ThreadPoolExecutor(2 * len(FILES)) as threads:
            texts = {
                folder / f"{name}.jsonl": self._joined(name, tasks, keep) for name, tasks in made.items()
            }
            written = dict(zip(texts, threads.map(_write, texts, texts.values()), strict=True))
            # The disk writes, and gives back room, while what lies in memory is read once more.
            synced = threads.map(_sync, texts)
            sums = {path.name: threads.submit(_proven, path, crc) for path, crc in written.items()}
            for part, own, (task, files) in parquet:
                sums[part] = threads.submit(_sha256, self.blocks(task, own, files[own]["crc32"]))
            removed = threads.map(Path.unlink, () if keep else self._final.spools)
            found = {name: one.result() for name, one in sums.items()}
            list(synced), list(removed)  # raises what the disk said
        return found

    def _joined(self, name: str, made: list[_Made], keep: bool) -> Iterator[Buffer]:
        """A whole file's lines, block by block; each block lasts until the next."""
        if name == LOST_FILE:
            yield from (lines for lines, *_ in self._final.of(name, 0, len(self._final.status)))
        for task, files in made:
            if SUM in files:
                yield from self._ready(task)
                continue
            own = f"{name}.jsonl"
            yield from self.blocks(task, own, files[own]["crc32"])
            if not keep:
                (self.place(task) / own).unlink()

    def _ready(self, task: int) -> Iterator[Buffer]:
        """The lines of a task that wrote none, from the spools. Raises StoreError when it saw other ones there."""
        name, where = self.about["tasks"][task]
        found = 0
        for lines, *_ in self._final.of(name, *where):
            found = crc32(lines, found)
            yield lines
        if found != int((self.place(task) / SUM).read_text(encoding="ascii")):
            raise self.damaged(task, SUM)

    def _parquet(self, made: list[_Made]) -> Iterator[tuple[str, str, _Made]]:
        """(final name, name in the task, task) of every part that has rows, of at least one of each set."""
        for own in sorted({name for _, files in made for name in files if name.endswith(".parquet")}):
            found = [one for one in made if own in one[1]]
            filled = [one for one in found if pq.read_metadata(self.place(one[0]) / own).num_rows] or found[
                :1
            ]
            for number, one in enumerate(filled):
                yield part_name(own.removesuffix(part_name("", 0, 1)), number, len(filled)), own, one


def _write(path: Path, data: Iterator[Buffer]) -> int:
    """Write a file; returns the CRC-32 of what was written."""
    found = 0
    with path.open("wb", buffering=0) as out:
        for block in data:
            write_all(out, block)
            found = crc32(block, found)
    return found


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _proven(path: Path, written: int) -> str:
    """sha256 of a file as it can be read. Raises StoreError when that is not what was written."""
    found, digest = 0, hashlib.sha256()
    for block in blocks_of(path):
        digest.update(block)
        found = crc32(block, found)
    if found != written:
        raise StoreError(f"{path}: is not what was written there", "check the disk, then merge again")
    return digest.hexdigest()


def _sha256(blocks: Iterator[Buffer]) -> str:
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()

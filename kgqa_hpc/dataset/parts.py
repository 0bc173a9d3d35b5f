"""The files of a dataset in parts, each a task of its own: a piece of a file's JSON lines, and its Parquet.

Where parts begin and end follows from the rows alone (`files.cuts`), before anything is written, so who writes which
changes no byte. When all are there, JSON lines are joined and Parquet gets its final names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kgqa_hpc.dataset.files import Background, JsonLines, RecordFiles, part_name
from kgqa_hpc.dataset.final_lines import ACCEPTED_FILE, LOST_FILE, REJECTED_FILE, FinalLines, Lines
from kgqa_hpc.dataset.ordered import SortedPieces
from kgqa_hpc.dataset.tasks import Files, FolderTasks
from kgqa_hpc.store.atomic import link_new

FILES = (ACCEPTED_FILE, REJECTED_FILE, LOST_FILE)
_Made = tuple[int, Files]  # a task and what it made


class DatasetParts(FolderTasks):
    """Tasks are (file, [first row, row behind the last]); where there is an order, (file, slices of sorted pieces)."""

    NAME = "parts"
    _final: FinalLines | None = None

    def make(self, task: Any, folder: Path) -> dict[str, int]:
        name, where = task
        if self._final is None:
            self._final = FinalLines(self.folder.parent / self.about["final"], self.about["digest"])
        if name == LOST_FILE:
            return _write_lost(self._final.of(name, *where), folder)
        parts = self._final.parts if name == ACCEPTED_FILE else ()
        with RecordFiles(folder, name, self._final.schema, parts) as files:
            for lines in self._lines(self._final, name, where):
                files.add(*lines)
        return {f"{name}.jsonl": files.lines.sum}

    def _lines(self, final: FinalLines, name: str, where: list[Any]) -> Iterator[Lines]:
        if self.about["ordered"]:
            return SortedPieces(self.folder.parent / SortedPieces.NAME).merged(name, where)
        return final.of(name, *where)

    def assemble(self, folder: Path, keep: bool) -> dict[str, str]:
        """Put the finished parts into the dataset's folder; returns sha256 by name.

        Unless they are to `keep`, JSON lines are removed as they are taken. Raises StoreError when a part is missing or
        not what was written; its task is then to be done again.
        """
        made: dict[str, list[_Made]] = {name: [] for name in FILES}
        for task, (name, _) in enumerate(self.about["tasks"]):
            made[name].append((task, self.found(task)))
        parquet = list(self._parquet(made[ACCEPTED_FILE] + made[REJECTED_FILE]))
        for part, own, (task, _) in parquet:
            link_new(self.place(task) / own, folder / part)
        with ThreadPoolExecutor(len(FILES)) as threads:
            sums = {
                f"{name}.jsonl": threads.submit(self._join, f"{name}.jsonl", made[name], folder, keep)
                for name in FILES
            }
            for part, own, (task, files) in parquet:
                sums[part] = threads.submit(self._sha256, task, own, files[own]["crc32"])
        return {name: one.result() for name, one in sums.items()}

    def _join(self, name: str, made: list[_Made], folder: Path, keep: bool) -> str:
        """The pieces of a file as one; returns its sha256."""
        whole = hashlib.sha256()
        with (folder / name).open("wb", buffering=0) as out:
            for task, files in made:
                for block in self.blocks(task, name, files[name]["crc32"]):
                    whole.update(block)
                    _write_all(out, block)
                if not keep:
                    (self.place(task) / name).unlink()
        return whole.hexdigest()

    def _parquet(self, made: list[_Made]) -> Iterator[tuple[str, str, _Made]]:
        """(final name, name in the task, task) of every part that has rows, of at least one of each set."""
        for own in sorted({name for _, files in made for name in files if name.endswith(".parquet")}):
            found = [one for one in made if own in one[1]]
            filled = [one for one in found if pq.read_metadata(self.place(one[0]) / own).num_rows] or found[
                :1
            ]
            for number, one in enumerate(filled):
                yield part_name(own.removesuffix(part_name("", 0, 1)), number, len(filled)), own, one

    def _sha256(self, task: int, name: str, crc: int) -> str:
        digest = hashlib.sha256()
        for block in self.blocks(task, name, crc):
            digest.update(block)
        return digest.hexdigest()


def _write_lost(lines: Iterator[Lines], folder: Path) -> dict[str, int]:
    background = Background()
    name = f"{LOST_FILE}.jsonl"
    lost = JsonLines(folder / name, background)
    for data, _, _ in lines:
        lost.add(data)
    lost.flush()
    background.finish()
    lost.close()
    return {name: lost.sum}


def _write_all(out: Any, view: memoryview) -> None:
    while view:
        view = view[out.write(view) :]

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
from kgqa_hpc.store.canonical import sha256_of

FILES = (ACCEPTED_FILE, REJECTED_FILE, LOST_FILE)
BLOCK = 1 << 20  # bytes that are copied at once
_Made = tuple[int, Files]  # a task and what it made


class DatasetParts(FolderTasks):
    """Tasks are (file, [first row, row behind the last]); where there is an order, (file, slices of sorted pieces)."""

    NAME = "parts"
    _final: FinalLines | None = None

    def make(self, task: Any, folder: Path) -> dict[str, str]:
        name, where = task
        if self._final is None:
            self._final = FinalLines(self.folder.parent / self.about["final"], self.about["digest"])
        if name == LOST_FILE:
            return _write_lost(self._final.of(name, *where), folder)
        parts = self._final.parts if name == ACCEPTED_FILE else ()
        with RecordFiles(folder, name, self._final.schema, parts) as files:
            for lines in self._lines(self._final, name, where):
                files.add(*lines)
        return files.sums

    def _lines(self, final: FinalLines, name: str, where: list[Any]) -> Iterator[Lines]:
        if self.about["ordered"]:
            return SortedPieces(self.folder.parent / SortedPieces.NAME).merged(name, where)
        return final.of(name, *where)

    def assemble(self, folder: Path, checked: bool) -> dict[str, str]:
        """Put the finished parts into the dataset's folder; returns sha256 by name.

        `checked`: other machines wrote them, so they are compared with their checksums; else they are removed as they
        are taken. Raises StoreError when one is missing or not what was written; its task is then to be done again.
        """
        made: dict[str, list[_Made]] = {name: [] for name in FILES}
        for task, (name, _) in enumerate(self.about["tasks"]):
            made[name].append((task, self.found(task)))
        sums: dict[str, str] = {}
        for name in (ACCEPTED_FILE, REJECTED_FILE):
            sums |= self._take_parquet(made[name], folder, checked)
        with ThreadPoolExecutor(len(FILES)) as threads:
            joined = {
                name: threads.submit(self._join, name, pieces, folder, checked)
                for name, pieces in ((f"{file}.jsonl", made[file]) for file in FILES)
            }
        return sums | {name: one.result() for name, one in joined.items()}

    def _join(self, name: str, pieces: list[_Made], folder: Path, checked: bool) -> str:
        """The pieces of a file as one; returns its sha256."""
        if len(pieces) == 1 and not checked:
            task, files = pieces[0]
            link_new(self.place(task) / name, folder / name)
            return str(files[name]["sha256"])
        whole = hashlib.sha256()
        with (folder / name).open("wb", buffering=0) as out:
            for task, files in pieces:
                expected, own = files[name]["sha256"], hashlib.sha256()
                with (self.place(task) / name).open("rb", buffering=0) as piece:
                    while block := piece.read(BLOCK):
                        whole.update(block)
                        if checked:
                            own.update(block)
                        _write_all(out, block)
                if checked and own.hexdigest() != expected:
                    raise self.spoilt(task)
                if not checked:
                    (self.place(task) / name).unlink()
        return whole.hexdigest()

    def _take_parquet(self, pieces: list[_Made], folder: Path, checked: bool) -> dict[str, str]:
        """Parts that have rows under their final names, at least one of each set; returns sha256 by name."""
        sums = {}
        for own in sorted(name for name in pieces[0][1] if name.endswith(".parquet")):
            found = [(task, self.place(task) / own, files[own]["sha256"]) for task, files in pieces]
            filled = [one for one in found if pq.read_metadata(one[1]).num_rows] or found[:1]
            for number, (task, path, digest) in enumerate(filled):
                if checked and sha256_of(path) != digest:
                    raise self.spoilt(task)
                name = part_name(own.removesuffix(part_name("", 0, 1)), number, len(filled))
                link_new(path, folder / name)
                sums[name] = digest
        return sums


def _write_lost(lines: Iterator[Lines], folder: Path) -> dict[str, str]:
    background = Background()
    name = f"{LOST_FILE}.jsonl"
    lost = JsonLines(folder / name, background)
    for data, _, _ in lines:
        lost.add(data)
    lost.flush()
    background.finish()
    return {name: lost.close()}


def _write_all(out: Any, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[out.write(view) :]

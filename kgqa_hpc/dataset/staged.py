"""Readers of the staged files of a merge, in the order of the dataset."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc import errors
from kgqa_hpc.dataset.accounting import Accounting, RequestCounts
from kgqa_hpc.dataset.columns import Columns, without_json_text
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.record import record_maker
from kgqa_hpc.dataset.stage import FACTS, SUFFIX, ShardFacts, sampled_digest
from kgqa_hpc.errors import AccountingError, CorruptFile, KgqaError, StoreError


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file, its number of rows, and the columns of its records."""

    path: Path
    rows: int
    columns: Columns

    def read(self, names: Sequence[str]) -> pa.Table:
        """The named columns of all rows. A damaged file is removed and raises StoreError."""
        with (
            _removed_if_damaged(self.path),
            pq.ParquetFile(self.path, page_checksum_verification=True) as file,
        ):
            return file.read(list(names), use_threads=False)


@dataclass(frozen=True, slots=True)
class Staged:
    """All staged files of a merge; row n of the dataset is the n-th row of these files."""

    files: list[StagedFile]
    columns: Columns

    def __len__(self) -> int:
        return sum(file.rows for file in self.files)

    def slices(self, rows: np.ndarray) -> Iterator[tuple[StagedFile, np.ndarray, pa.Array]]:
        """(file, numbers of its rows, their positions in it) for `rows`: ascending row numbers, shape (n,)."""
        start = 0
        for file in self.files:
            # Bounds of another type than the rows would convert all rows.
            bounds = np.array([start, start + file.rows], rows.dtype)
            begin, last = np.searchsorted(rows, bounds)
            if begin < last:
                yield file, rows[begin:last], pa.array(rows[begin:last] - start)
            start += file.rows

    def read(self, names: Sequence[str], rows: np.ndarray) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """(row numbers, their columns) file by file for `rows`."""
        for file, numbers, positions in self.slices(rows):
            yield numbers, file.read(names).take(positions)

    def records(self, rows: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        """(row number, record without the decided fields) for `rows`."""
        for numbers, table in self.read(["record"], rows):
            for number, line in zip(numbers.tolist(), table["record"].to_pylist(), strict=True):
                yield number, orjson.loads(f"{line}}}")

    def lines(self, file: StagedFile, table: pa.Table) -> pa.Array:
        """The `record` column of a table of a file, converted to the columns of the whole dataset."""
        lines: pa.Array = table["record"].combine_chunks()
        if file.columns.layout() == self.columns.layout():
            return lines
        paths = file.columns.json_text()
        records = (without_json_text(orjson.loads(f"{line}}}"), paths) for line in lines.to_pylist())
        return pa.array([orjson.dumps(self.columns.conform(record))[:-1] for record in records], pa.string())


def survey(work: FinishedWork, folder: Path) -> tuple[Staged, Accounting]:
    """The staged files of a run, and the accounting of everything that does not depend on filters.

    Raises AccountingError when shards are not the anchors, CorruptFile naming all damaged results, after each was
    moved to quarantine, StoreError for a damaged staged file.
    """
    accounting = Accounting(shards=len(work.manifest.shards), missing_shards=len(work.missing))
    columns, requests = Columns(record_maker(work.config, "").columns), RequestCounts()
    files: list[StagedFile] = []
    layouts: dict[bytes, Columns] = {}  # shared by the many files with the same columns: some kB each
    problems: list[KgqaError] = []
    for entry, ids, groups in work.sampled():
        file, facts = open_staged(folder / f"{entry.name}{SUFFIX}")
        if facts.problem is not None:
            kind, message, cure = facts.problem
            problems.append(getattr(errors, kind)(message, cure))
            file.path.unlink(missing_ok=True)  # the next merge tries again
            continue
        if facts.sampled != sampled_digest(ids, groups):
            raise AccountingError(
                f"{entry.name} holds other anchors than its slice of anchors.h5",
                "restore anchors.h5, or run anew",
            )
        files.append(replace(file, columns=layouts.setdefault(file.columns.layout(), file.columns)))
        columns.take(facts.columns)
        requests.take(facts.requests)
        for name, number in Counter(groups).items():
            accounting.group(name).sampled += number
        for name in facts.waiting:
            accounting.group(name).waiting += 1
        for name, status, reason in facts.lists:
            accounting.group(name).add(status, reason)
    _raise_together(problems)
    accounting.requests = requests.rows()
    accounting.json_text = columns.json_text()
    return Staged(files, columns), accounting


def _raise_together(problems: list[KgqaError]) -> None:
    """Raise the first error that is not a CorruptFile, else one CorruptFile that names all damaged results."""
    for problem in problems:
        if len(problems) == 1 or not isinstance(problem, CorruptFile):
            raise problem
    if problems:
        messages = "\n       ".join(sorted(problem.message for problem in problems)[:10])
        raise CorruptFile(f"{len(problems)} results are damaged\n       {messages}", problems[0].cure)


def open_staged(path: Path) -> tuple[StagedFile, ShardFacts]:
    """Open a staged file; returns it with the facts of its shard."""
    with _removed_if_damaged(path):
        metadata = pq.read_metadata(path)
        facts = ShardFacts(**orjson.loads(metadata.metadata[FACTS]))
    columns = Columns()
    if facts.problem is None:
        columns.take(facts.columns)
    return StagedFile(path, metadata.num_rows, columns), facts


@contextmanager
def _removed_if_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as problem:
        path.unlink(missing_ok=True)
        raise StoreError(
            f"{path}: was not what was written there and is removed: {problem}", "merge again"
        ) from problem

"""All rows of a merge as arrays: what filters look at and mark. About 30 bytes a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.dataset.accounting import NO_REASON, Accounting, OutcomeCounts, RecordCounts
from kgqa_hpc.dataset.spool import (
    ACCEPTED,
    REJECTED,
    SECTIONS,
    STATUSES,
    Names,
    Spool,
    read_pair,
    read_record,
)

NO_PART = -1


@dataclass(slots=True)
class Rows:
    """One entry per row, in the order of the dataset.

    Arrays of shape (rows,): `group`, `reason` (numbers of `groups` and `reasons`), `status` (index of
    STATUSES), `question` and `answer` (characters, -1 without a pair), `single` (stands for its item),
    `line` (bytes of its record's line as it lies in the spool), `part` (of `parts`, NO_PART without a split),
    `changed` (a filter rejected it: its line in the spool is not that of the dataset). `spools` are the files with
    the bytes, `sizes` their rows.
    """

    spools: list[Path]
    sizes: list[int]
    groups: Names
    reasons: Names
    group: np.ndarray
    status: np.ndarray
    reason: np.ndarray
    question: np.ndarray
    answer: np.ndarray
    single: np.ndarray
    line: np.ndarray
    part: np.ndarray
    changed: np.ndarray
    parts: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.status)

    @property
    def accepted(self) -> np.ndarray:
        """Row numbers of what is accepted so far."""
        return np.flatnonzero(self.status == ACCEPTED)

    def file_bytes(self) -> dict[str, np.ndarray]:
        """By name, the bytes that each row puts into a file of records: shape (rows,), 0 for rows of other files."""
        accepted = self.status == ACCEPTED
        rejected = (self.status == REJECTED) & (self.line > 0)
        return {
            "accepted": np.where(accepted, self.line, 0),
            "rejected": np.where(rejected, self.line, 0),
        }

    def reject(self, rows: np.ndarray, reason: str) -> None:
        """Mark rows (numbers or a mask) as rejected for `reason`."""
        self.status[rows] = REJECTED
        self.changed[rows] = True
        self.reason[rows] = self.reasons.number(reason)

    def pairs(self, wanted: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        """(row, {id, question, answer, kind, group}) of the wanted rows, read from the spools."""
        for row, (first, _) in self._pieces(wanted):
            yield row, read_pair(first)

    def records(self, wanted: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        """(row, whole record) of the wanted rows."""
        for row, (first, rest) in self._pieces(wanted):
            yield row, read_record(first, rest)

    def _pieces(self, wanted: np.ndarray) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
        chosen = np.zeros(len(self), bool)
        chosen[wanted] = True
        start = 0
        for path, size in zip(self.spools, self.sizes, strict=True):
            here = np.flatnonzero(chosen[start : start + size])
            if len(here):
                spool = Spool(path, SECTIONS)
                for row in here.tolist():
                    yield start + row, spool.pieces(row)
            start += size

    def count(self, accounting: Accounting) -> None:
        """Add what became of every row to the accounting."""
        for (group, status, reason, single), number in self._tally().items():
            name = self.groups.texts[group]
            text = self.reasons.texts[reason] if reason >= 0 else None
            if single:
                accounting.group(name).add(STATUSES[status], text, number)
            elif status in (ACCEPTED, REJECTED):
                _count_records(accounting.records.setdefault(name, RecordCounts()), status, text, number)
        for name, (pairs, outliers) in self._pairs().items():
            counts: OutcomeCounts = accounting.group(name)
            counts.pairs, counts.outliers = pairs, outliers

    def _tally(self) -> dict[tuple[int, int, int, bool], int]:
        reasons = len(self.reasons.texts) + 1  # -1, no reason, is one too
        shape = (max(1, len(self.groups.texts)), len(STATUSES), reasons, 2)
        keys = (self.group, self.status, self.reason + 1, self.single.astype(np.int8))
        flat = np.ravel_multi_index(
            keys, shape
        )  # counted as one number: a million rows take 20 ms, not a second
        found, numbers = np.unique(flat, return_counts=True)
        kinds = zip(*(axis.tolist() for axis in np.unravel_index(found, shape)), strict=True)
        counted = zip(kinds, numbers.tolist(), strict=True)
        return {(g, s, r - 1, bool(single)): number for (g, s, r, single), number in counted}

    def _pairs(self) -> dict[str, tuple[int, int]]:
        from kgqa_hpc.dataset.accounting import LENGTH

        has, outlier = self.question >= 0, self.reason == self.reasons.number(LENGTH)
        groups = len(self.groups.texts)
        pairs = np.bincount(self.group[has], minlength=groups).tolist()
        left_out = np.bincount(self.group[outlier], minlength=groups).tolist()
        return {name: (pairs[i], left_out[i]) for i, name in enumerate(self.groups.texts)}


def _count_records(counts: RecordCounts, status: int, reason: str | None, number: int) -> None:
    counts.records += number
    if status == ACCEPTED:
        counts.accepted += number
    else:
        counts.rejected[reason or NO_REASON] += number


# In the order of the fields of Rows.
_TYPES = (np.int32, np.int8, np.int32, np.int32, np.int32, np.bool_, np.int32)


class RowsBuilder:
    """Collects the tables of all spools into arrays."""

    def __init__(self) -> None:
        self._groups, self._reasons = Names(), Names()
        self._spools: list[Path] = []
        self._sizes: list[int] = []
        self._columns = [
            bytearray() for _ in _TYPES
        ]  # which grow in place; joining arrays would take twice as much

    def add(self, path: Path, spool: Spool) -> None:
        """The rows of one shard, after those before it."""
        self._spools.append(path)
        self._sizes.append(len(spool))
        groups = np.array([self._groups.number(name) for name in spool.head.groups], np.int32)
        reasons = np.array([*(self._reasons.number(text) for text in spool.head.reasons), -1], np.int32)
        shard = (
            groups[spool["group"]],
            spool["status"],
            reasons[spool["reason"]],  # -1 takes the last, which is -1
            *(spool[name] for name in ("question", "answer", "single", "line")),
        )
        for column, kind, values in zip(self._columns, _TYPES, shard, strict=True):
            column += values.astype(kind).tobytes()

    def rows(self) -> Rows:
        """All of them."""
        found = zip(self._columns, _TYPES, strict=True)
        arrays: list[np.ndarray] = [np.frombuffer(column, kind) for column, kind in found]
        group, status, reason, question, answer, single, line = arrays
        size = len(status)
        return Rows(
            self._spools,
            self._sizes,
            self._groups,
            self._reasons,
            group,
            status,
            reason,
            question,
            answer,
            single,
            line,
            part=np.full(size, NO_PART, np.int8),
            changed=np.zeros(size, bool),
        )

"""What merge keeps of a shard between its two passes: lines that are final but for a filter's word.

A spool is a file in the folder being made: one line of JSON (`Head`), a table of numbers with a row for each
candidate (`FIELDS`), then lines. Every row with a pair has the line of its record, as it stands in the dataset if no
filter touches it. Lines of the same outcome lie together, so what filters leave alone is copied in long stretches.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from isal.isal_zlib import crc32

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.atomic import write_file

STATUSES = ("accepted", "rejected", "invalid", "failed")
ACCEPTED, REJECTED, LOST = 0, 1, 2
# What follows the table: lines of accepted, rejected and other rows as they were made, then lines for lost.jsonl.
SECTIONS = range(4)
LOST_LINES = 3
# Per row: number of its group and reason in the head (-1: none), index in STATUSES, characters of question and
# answer (-1 without a pair), whether it stands for its item or is one of a list, whether its line has the columns of
# its shard as they are (else it is as the item had it); then bytes: of its record's line (0: none), where in it
# `accepted` begins and what follows it, and of its line for lost.jsonl.
FIELDS = ("group", "reason", "status", "question", "answer", "single", "fits", "line", "cut", "rest", "lost")
_PLACE = {name: number for number, name in enumerate(FIELDS)}
# What follows `accepted` and `reason` in a line. In front of it are texts alone, and within a text a quotation mark
# has a backslash before it.
BEHIND = b',"verdicts":'


class Names:
    """Numbers for texts, in the order in which they first occur."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


@dataclass(slots=True)
class Head:
    """What is known of a shard beside its rows.

    `sampled` is the digest of ids and groups of its anchors (`sampled_digest`), `waiting` the groups of those
    without a row. `lists` are (group, status, reason) of the items that yielded a list. `sums` are the CRC-32 of the
    table and of each section, in a spool that lies for other processes.
    """

    rows: int = 0
    sampled: str = ""
    waiting: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    lists: list[tuple[str, str, str | None]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    columns: list[Any] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)


class SpoolWriter:
    """Collects the rows of one shard.

    `rooms`, one for each of SECTIONS, take the lines. Who writes many spools gives the same ones again: what is
    copied into memory that was just in use costs a tenth of what stays in memory of its own.
    """

    def __init__(self, rooms: Sequence[BytesIO]) -> None:
        self.head = Head()
        self._rooms = rooms
        for room in rooms:
            room.seek(0)
        self._groups, self._reasons = Names(), Names()
        self._outcomes: dict[tuple[str, str | None], tuple[int, int, int]] = {}
        self._table = array("i")
        self._forms: list[int] = []

    def add(
        self,
        group: str,
        status: str,
        reason: str | None,
        pair: tuple[str, str] | None,
        single: bool,
        form: int,
        line: bytes,
        lost: bytes,
    ) -> None:
        """One row: its record's line (empty: none) and the number of the record's form, its line for lost.jsonl."""
        known = self._outcomes.get((status, reason))
        if known is None:
            known = self._outcomes[status, reason] = self._outcome(status, reason)
        number, why, middle = known
        question, answer = (len(pair[0]), len(pair[1])) if pair else (-1, -1)
        rest = line.index(BEHIND, max(question, 0) + max(answer, 0)) + 1 if line else 0  # behind these two
        cut = rest - middle if line else 0
        places = (single, False, len(line), cut, rest, len(lost))
        self._table.extend((self._groups.number(group), why, number, question, answer, *places))
        self._forms.append(form)
        if line:
            self._rooms[min(number, LOST)].write(line)
        self._rooms[LOST_LINES].write(lost)

    def _outcome(self, status: str, reason: str | None) -> tuple[int, int, int]:
        """Numbers of a status and a reason, and the bytes that say so in a line."""
        number = STATUSES.index(status)
        why = -1 if reason is None else self._reasons.number(reason)
        return number, why, len(verdict_member(reason, number))

    def write(self, path: Path, fits: Callable[[int], bool], *, durable: bool = False) -> None:
        """Commit the file; `head` may be completed until then. `fits` says whether lines of a form have all columns.

        `durable`: other machines will read it. Raises DiskFull, StoreError.
        """
        table = np.array(self._table, np.int32).reshape(-1, len(FIELDS))
        fitting = {form: fits(form) for form in set(self._forms)}
        table[:, _PLACE["fits"]] = [fitting[form] for form in self._forms]
        self.head.rows = len(table)
        self.head.groups, self.head.reasons = self._groups.texts, self._reasons.texts
        body: list[bytes | memoryview] = [
            table.tobytes(),
            *(room.getbuffer()[: room.tell()] for room in self._rooms),
        ]
        self.head.sums = [crc32(part) for part in body] if durable else []
        write_file(path, b"".join([orjson.dumps(asdict(self.head)), b"\n", *body]), durable=durable)


class Spool:
    """A spool as it lies on disk: `head`, columns of the table by name, and where each row's lines are.

    Only the lines of neighbouring `sections` are read, none by default. Raises StoreError when what is read is not
    what was written; the spool is then removed.
    """

    def __init__(self, path: Path, sections: range = range(0)) -> None:
        with path.open("rb") as file:
            self.head = Head(**orjson.loads(file.readline()))
            table = file.read(4 * len(FIELDS) * self.head.rows)
            self._table = np.frombuffer(table, np.int32).reshape(-1, len(FIELDS))
            sizes = self._place()
            skipped = sum(sizes[: sections.start])
            file.seek(skipped, os.SEEK_CUR)
            self.bytes = memoryview(file.read(sum(sizes[section] for section in sections)))
        for places in (self.start, self.end, self.lost_start, self.lost_end):
            places -= skipped
        if (
            sections
            and self.head.sums
            and not self._is_whole(table, [sizes[one] for one in sections], sections)
        ):
            path.unlink(missing_ok=True)
            raise StoreError(f"{path}: was not what was written there and is removed", "merge again")

    def _place(self) -> list[int]:
        """Say where in the sections each row's lines are; returns the bytes of each section."""
        lengths, lost = self["line"].astype(np.int64), self["lost"].astype(np.int64)
        kind = np.minimum(self["status"], LOST)
        order = np.argsort(kind, kind="stable")
        self.start = np.empty(len(lengths), np.int64)
        self.start[order] = np.cumsum(lengths[order]) - lengths[order]
        self.end = self.start + lengths
        self.lost_start = int(lengths.sum()) + np.cumsum(lost) - lost
        self.lost_end = self.lost_start + lost
        return [*(int(lengths[kind == one].sum()) for one in (ACCEPTED, REJECTED, LOST)), int(lost.sum())]

    def _is_whole(self, table: bytes, sizes: list[int], sections: range) -> bool:
        ends = [0, *accumulate(sizes)]
        found = [crc32(self.bytes[start:end]) for start, end in pairwise(ends)]
        expected = [self.head.sums[1 + section] for section in sections]
        return [crc32(table), *found] == [self.head.sums[0], *expected]

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, name: str) -> np.ndarray:
        """A column of the table, shape (rows,), int32."""
        column: np.ndarray = self._table[:, _PLACE[name]]
        return column

    def pieces(self, row: int) -> tuple[bytes, bytes]:
        """A record's line up to the member `accepted`, and the rest of it behind `reason`."""
        start, end = int(self.start[row]), int(self.end[row])
        cut, rest = start + int(self["cut"][row]), start + int(self["rest"][row])
        return bytes(self.bytes[start:cut]), bytes(self.bytes[rest:end])

    def stretches(self, rows: np.ndarray, whole: np.ndarray) -> Iterator[tuple[int, memoryview | None]]:
        """The lines of rows in ascending order: (first row, the bytes of all lines up to the next stretch).

        `whole` (rows,) says which lines are taken as they are; every other row comes alone, with None.
        """
        if not len(rows):
            return
        start, end = self.start[rows], self.end[rows]
        joints = np.flatnonzero(~whole[1:] | ~whole[:-1] | (start[1:] != end[:-1])) + 1
        for first, last in pairwise([0, *joints.tolist(), len(rows)]):
            taken = self.bytes[start[first] : end[last - 1]] if whole[first] else None
            yield int(rows[first]), taken


def cut_line(line: bytes) -> tuple[bytes, bytes]:
    """A record's line without `accepted` and `reason`, before and after their place."""
    cut = line.index(BEHIND) + 1
    return line[:cut], line[cut:]


def verdict_member(reason: str | None, status: int) -> bytes:
    """The members `accepted` and `reason` of a line."""
    if status == ACCEPTED:
        return b'"accepted":true,"reason":null,'
    return b'"accepted":false,"reason":' + orjson.dumps(reason) + b","


def sampled_digest(ids: list[str], groups: list[str]) -> str:
    """What tells one list of anchors from another."""
    return hashlib.blake2b(orjson.dumps([ids, groups]), digest_size=16).hexdigest()


def read_record(first: bytes, rest: bytes) -> dict[str, Any]:
    """The record that two pieces make, without `accepted` and `reason`."""
    record: dict[str, Any] = orjson.loads(first + rest)
    return record


def read_pair(first: bytes) -> dict[str, Any]:
    """id, question, answer, kind and group of a row, from its first piece alone."""
    pair: dict[str, Any] = orjson.loads(first[:-1] + b"}")
    return pair

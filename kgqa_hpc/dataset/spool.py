"""What merge keeps of a shard between its two passes: lines that are final but for a filter's word.

A spool is a file in the folder being made: one line of JSON (`head`), then bytes. A row is a candidate for the
dataset. Its bytes are three pieces: the record's line up to the member `accepted`, the rest of it, and the line
for lost.jsonl if it becomes none; `pieces` gives their lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

STATUSES = ("accepted", "rejected", "invalid", "failed")


@dataclass(slots=True)
class Head:
    """What is known of a shard's rows without their bytes.

    `sampled` are id and group of each anchor, `waiting` the groups of those without a row. Per row: `group`,
    `status` (index in STATUSES), `reason`, lengths of question and answer in characters (-1 without a pair),
    whether the row stands for its item or is one of a list of records, and the three lengths of its bytes.
    `lists` are (group, status, reason) of the items that yielded a list.
    """

    sampled: list[tuple[str, str]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    group: list[str] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    reason: list[str | None] = field(default_factory=list)
    question: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    single: list[bool] = field(default_factory=list)
    pieces: list[tuple[int, int, int]] = field(default_factory=list)
    lists: list[tuple[str, str, str | None]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    columns: list[Any] = field(default_factory=list)

    def add(
        self, group: str, status: str, reason: str | None, pair: tuple[str, str] | None, single: bool
    ) -> None:
        """One row; its pieces are known later."""
        self.group.append(group)
        self.status.append(STATUSES.index(status))
        self.reason.append(reason)
        self.question.append(len(pair[0]) if pair else -1)
        self.answer.append(len(pair[1]) if pair else -1)
        self.single.append(single)


def write_spool(path: Path, head: Head, pieces: list[tuple[bytes, bytes, bytes]]) -> None:
    """Write one shard's rows."""
    head.pieces = [(len(a), len(b), len(c)) for a, b, c in pieces]
    names = Head.__dataclass_fields__
    with path.open("wb") as file:
        file.write(orjson.dumps({name: getattr(head, name) for name in names}) + b"\n")
        file.writelines(piece for row in pieces for piece in row)


def read_head(path: Path) -> Head:
    """The first line alone."""
    with path.open("rb") as file:
        return Head(**orjson.loads(file.readline()))


def read_pieces(path: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The three pieces of every row, in order."""
    data = path.read_bytes()
    at = data.index(b"\n") + 1
    for one, two, three in orjson.loads(data[:at])["pieces"]:
        middle, last = at + one, at + one + two
        yield data[at:middle], data[middle:last], data[last : last + three]
        at = last + three


def read_record(first: bytes, rest: bytes) -> dict[str, Any]:
    """The record that two pieces make, without `accepted` and `reason`."""
    record: dict[str, Any] = orjson.loads(first + rest)
    return record


def read_pair(first: bytes) -> dict[str, Any]:
    """id, question, answer, kind and group of a row, from its first piece alone."""
    pair: dict[str, Any] = orjson.loads(first[:-1] + b"}")
    return pair

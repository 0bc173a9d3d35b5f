"""Counts from the journals of shards without a result: number of finished items, by outcome.

A journal grows with every answer and may be megabytes long; if a shard has one journal, only the lines appended
since the last refresh are read. If it has several, of successive or simultaneous workers, all are read again,
because the same item may be in two of them.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import StoreError
from kgqa_hpc.store.fingerprint import ResultOrigin
from kgqa_hpc.store.journal import read_on
from kgqa_hpc.store.regular import ABSENT_NOW
from kgqa_hpc.store.results import count

ENDED = ("accepted", "rejected", "invalid", "failed")
Sizes = dict[str, int]  # of a shard's journals, by file name


@dataclass(slots=True)
class _Shard:
    sizes: Sizes = field(default_factory=dict)
    offset: int = 0  # offset at which reading of its single journal continues
    answers: int = 0  # records of items, finished or not
    tokens: dict[str, int] = field(default_factory=dict)  # of these answers
    ended: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class JournalCounts:
    """Ended items of each open shard of a pass."""

    _shards: dict[str, _Shard] = field(default_factory=dict)

    @property
    def shards(self) -> set[str]:
        return set(self._shards)

    @property
    def answers(self) -> int:
        """Number of records in all journals; it grows by one with each stored answer."""
        return sum(shard.answers for shard in self._shards.values())

    @property
    def tokens(self) -> Counter[str]:
        """Tokens of all answers, by kind."""
        tokens: Counter[str] = Counter()
        for shard in self._shards.values():
            tokens.update(shard.tokens)
        return tokens

    @property
    def ended(self) -> int:
        """Number of finished items of all shards."""
        return sum(sum(shard.ended.values()) for shard in self._shards.values())

    def counts(self, shard: str, last: bool) -> dict[str, int]:
        """Numbers of items by outcome. Items accepted by a pass that is not the `last` have not ended."""
        ended = self._shards[shard].ended
        return {name: ended.get(name, 0) for name in (ENDED if last else ENDED[1:])}

    def refresh(self, folder: Path, sizes_now: dict[str, Sizes], origin: ResultOrigin) -> None:
        """Add the new lines of the journals in `sizes_now` to the counts, and drop shards without a journal.

        A journal that cannot be read keeps its counts of the last refresh.
        """
        self._shards = {name: self._shards.get(name, _Shard()) for name in sizes_now}
        for name, sizes in sizes_now.items():
            shard = self._shards[name]
            if shard.sizes != sizes:
                expected = origin.header(name, "")
                del expected["shard_sha256"]
                try:
                    self._shards[name] = _read(folder, shard, sizes, expected)
                except (StoreError, OSError):
                    continue  # removed, because its result is there, or a passing error of the file system

    def to_dict(self) -> dict[str, Any]:
        return {name: asdict(shard) for name, shard in self._shards.items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> JournalCounts:
        """The inverse of `to_dict`. Raises KeyError, TypeError or AttributeError for other data."""
        return cls(
            {
                name: _Shard(
                    {file: count(size) for file, size in entry["sizes"].items()},
                    count(entry["offset"]),
                    count(entry["answers"]),
                    {kind: count(number) for kind, number in entry["tokens"].items()},
                    {status: count(n) for status, n in entry["ended"].items() if status in ENDED},
                )
                for name, entry in data.items()
            }
        )


def list_journals(folder: Path) -> dict[str, Sizes]:
    """The journals in a pass's folder: by shard their names and sizes."""
    sizes: dict[str, Sizes] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".journal") and entry.is_file(follow_symlinks=False):
                    sizes.setdefault(entry.name.split(".")[0], {})[entry.name] = entry.stat().st_size
    except OSError as problem:
        if problem.errno not in ABSENT_NOW:
            raise
    return sizes


def _read(folder: Path, before: _Shard, sizes: Sizes, expected: dict[str, str]) -> _Shard:
    if len(sizes) == 1 and before.sizes.keys() == sizes.keys() and before.offset <= min(sizes.values()):
        counted = before
    else:
        counted = _Shard()
    ended: dict[str, str] = {}
    answers, offset, tokens = counted.answers, counted.offset, Counter(counted.tokens)
    for file in sorted(sizes):
        records, offset = read_on(folder / file, counted.offset, expected)
        answers += len(records)
        for record in records:  # tokens of the answer that caused a record: the last of its trace
            trace = record.get("trace")
            last = trace[-1] if isinstance(trace, list) and trace else None
            used = last.get("tokens") if isinstance(last, dict) else None
            if isinstance(used, dict):
                tokens.update({kind: count(number) for kind, number in used.items()})
        ended |= {str(record["id"]): record["status"] for record in records if record.get("status") in ENDED}
    counts = Counter(counted.ended)
    counts.update(ended.values())
    return _Shard(sizes, offset if len(sizes) == 1 else 0, answers, dict(tokens), dict(counts))

"""Readers of a dataset's files, which are verified by SHA256SUMS before a command reads them.

An `ExportSource` gives the accepted records of a run or a combined dataset, by part of the split. A condition on
records (`--where`) is an SQL expression over the columns of a dataset; an empty one holds for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import InputError
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.replace_folder import settle
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sums import COMBINED, damaged, require_whole
from kgqa_hpc.text.plain_text import shell_word
from kgqa_hpc.text.streams import open_regular, read_bytes

TRAIN = "train"
THINKING = "thinking"  # name of the member with a record's reasoning; no column has this name


def read_records(dataset: Path, name: str) -> Iterator[dict[str, Any]]:
    """Records of a file of the dataset (accepted, rejected or lost). Raises CorruptFile for a damaged file."""
    path = dataset / f"{name}.jsonl"
    require_whole(dataset, path.name)
    with disk_errors(path), open(open_regular(path), "rb") as file:
        yield from map(orjson.loads, file)


LEVELS = ("easy", "medium", "hard")  # levels of difficulty (anchors/family.py, docs/guide/families.md)


def condition_of(
    difficulty: Sequence[str] = (), scores: Sequence[str] = (), condition: str | None = None
) -> str:
    """The SQL condition of command-line options: levels of difficulty, NAME=LEAST scores, and an expression.

    Empty without options. Raises InputError.
    """
    for level in difficulty:
        if level not in LEVELS:
            raise InputError(f"--difficulty {level}: there is none", f"one of {', '.join(LEVELS)}")
    levels = ", ".join(f"'{level}'" for level in sorted(set(difficulty)))
    # The line break ends an SQL comment in the condition.
    conditions = [f"({condition}\n)"] if condition else []
    conditions += [f"difficulty IN ({levels})"] if levels else []
    for text in scores:
        name, _, value = text.partition("=")
        try:
            least = float(value)
        except ValueError:
            least = float("nan")
        if not name or not isfinite(least):
            raise InputError(f"--score {text}: is not NAME=LEAST", "e.g. --score quality_score=7")
        quoted = name.replace('"', '""')
        conditions.append(f'features."{quoted}" >= {least}')
    if condition and len(conditions) == 1:
        return condition  # unchanged, so that error messages show the user's own text
    return " AND ".join(conditions)


def selector(dataset: Path, name: str, condition: str) -> Callable[[Mapping[str, Any]], bool]:
    """A function that tests records of a file of the dataset (accepted, rejected or lost).

    Raises InputError for a condition that DuckDB cannot evaluate, CorruptFile for a damaged dataset.
    """
    if not condition:
        return lambda record: True
    from kgqa_hpc.database import matching_ids

    require_whole(dataset, *(part.name for part in dataset.glob(f"{name}-*.parquet")))
    ids = matching_ids(dataset, name, condition)
    return lambda record: record["id"] in ids


@dataclass(frozen=True)
class CombinedFolder(RunFolder):
    """The folder of `kgqa combine`, whose dataset is read like that of a run."""

    @property
    def dataset(self) -> Path:  # type: ignore[override]
        """The folder with the dataset's files, for a combined dataset the folder itself."""
        return self.path


def open_folder(path: Path) -> RunFolder:
    """A run, or a combined dataset. Raises InputError when `path` is neither."""
    return CombinedFolder(path) if (path / COMBINED).is_file() else RunFolder.open(path)


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A merged run or a combined dataset.

    `splits` are the names of its parts, train alone without a split; `holds` selects its records; `reasoning`: gives
    each record the member THINKING.
    """

    run: RunFolder
    splits: tuple[str, ...]
    holds: Callable[[Mapping[str, Any]], bool] = lambda record: True
    reasoning: Callable[[dict[str, Any]], str] | None = None

    @property
    def digest(self) -> str:
        """The run's fingerprint; for a combined dataset, the sha256 of its combined.json."""
        if isinstance(self.run, CombinedFolder):
            return sha256_of(self.run.path / COMBINED)
        return self.run.manifest().digest

    def records(self, split: str | None = None) -> Iterator[dict[str, Any]]:
        """Accepted records in their order, of one part or of all. Raises CorruptFile for a damaged file."""
        for record in read_records(self.run.dataset, "accepted"):
            if (split is None or record.get("split", TRAIN) == split) and self.holds(record):
                if self.reasoning is not None:
                    record[THINKING] = self.reasoning(record)
                yield record


def open_source(run: RunFolder, where: str = "") -> ExportSource:
    """The records of a merged run that match `where`. Raises InputError without a dataset or for a wrong condition."""
    parts = read_accounting(run).get("splits", {}).get("parts", {})
    return ExportSource(run, tuple(parts) or (TRAIN,), selector(run.dataset, "accepted", where))


def read_accounting(run: RunFolder) -> dict[str, Any]:
    """The content of accounting.json of a merged run; the counts of combined.json in its form, without groups.

    Raises InputError when there is no dataset, CorruptFile when the file is not what merge wrote.
    """
    path = run.dataset / (COMBINED if isinstance(run, CombinedFolder) else "accounting.json")
    settle(run.dataset)
    if not path.exists():
        raise InputError(f"{run.path}: there is no dataset yet", f"first: kgqa merge {shell_word(run.path)}")
    require_whole(run.dataset, path.name)
    try:
        with disk_errors(path):
            counts = orjson.loads(read_bytes(path))
        if path.name == COMBINED:
            counts = {
                "accepted": counts["accepted"],
                "rejected": {"rejected": counts["rejected"]},
                "groups": {},
            }
        counts["groups"].items()
    except (AttributeError, KeyError, TypeError, ValueError):
        raise damaged(path) from None
    return counts

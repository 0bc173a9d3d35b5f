"""Conditions on records: an SQL expression over the columns of a dataset, for the option `--where` of all
commands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from kgqa_hpc.dataset.whole import require_whole
from kgqa_hpc.errors import InputError

LEVELS = ("easy", "medium", "hard")  # anchors/family.py, docs/guide/families.md


@dataclass(frozen=True, slots=True)
class Where:
    """Condition on records: an SQL expression; empty for all records."""

    condition: str = ""

    @classmethod
    def of(
        cls, difficulty: Sequence[str] = (), scores: Sequence[str] = (), condition: str | None = None
    ) -> Where:
        """The condition of command-line options: levels of difficulty, NAME=LEAST scores, and an expression.

        Raises InputError.
        """
        for level in difficulty:
            if level not in LEVELS:
                raise InputError(f"--difficulty {level}: there is none", f"one of {', '.join(LEVELS)}")
        levels = ", ".join(f"'{level}'" for level in sorted(set(difficulty)))
        conditions = [condition] if condition else []
        conditions += [f"difficulty IN ({levels})"] if levels else []
        conditions += map(_score, scores)
        if len(conditions) < 2:
            return cls("".join(conditions))
        return cls(" AND ".join(f"({part}\n)" if part is condition else part for part in conditions))

    def selector(self, dataset: Path, name: str) -> Callable[[Mapping[str, Any]], bool]:
        """A function that tests records of a file of the dataset (accepted, rejected or lost).

        Raises InputError for an expression that DuckDB cannot evaluate, CorruptFile for a damaged dataset.
        """
        if not self.condition:
            return lambda record: True
        from kgqa_hpc.database import matching_ids

        require_whole(dataset, *(part.name for part in dataset.glob(f"{name}-*.parquet")))
        ids = matching_ids(dataset, name, self.condition)
        return lambda record: record["id"] in ids


EVERY = Where()


def _score(text: str) -> str:
    name, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = float("nan")
    if not name or not isfinite(least):
        raise InputError(f"--score {text}: is not NAME=LEAST", "e.g. --score quality_score=7")
    quoted = name.replace('"', '""')
    return f'features."{quoted}" >= {least}'

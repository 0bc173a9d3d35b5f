"""Which records are wanted: of some difficulties, and with features that reach a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder

LEVELS = ("easy", "medium", "hard")  # anchors/family.py, docs/families.md


@dataclass(frozen=True, slots=True)
class Where:
    """Conditions that must all hold; without any, every record fits. A record without a score does not reach it."""

    difficulty: frozenset[str] = frozenset()
    least: Mapping[str, float] = field(default_factory=dict)  # by the name of a feature

    @classmethod
    def of(cls, difficulty: Sequence[str] = (), scores: Sequence[str] = ()) -> Where:
        """From the words of a command line: levels, and NAME=LEAST. Raises InputError."""
        for level in difficulty:
            if level not in LEVELS:
                raise InputError(f"--difficulty {level}: there is none", f"one of {', '.join(LEVELS)}")
        return cls(frozenset(difficulty), dict(map(_score, scores)))

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether a record of a dataset fits."""
        if self.difficulty and record.get("difficulty") not in self.difficulty:
            return False
        found = record.get("features") or {}
        return all(_reaches(found.get(name), least) for name, least in self.least.items())

    def plain(self) -> dict[str, Any]:
        """The conditions as plain data."""
        return {"difficulty": sorted(self.difficulty), "score": dict(self.least)}

    def require(self, run: RunFolder) -> None:
        """Raises InputError when the records of a merged run have no such column at all."""
        if not self.difficulty and not self.least:
            return
        import pyarrow.parquet as pq

        part = min(run.dataset.glob("accepted-*.parquet"))
        schema = pq.read_schema(part)
        if self.difficulty and "difficulty" not in schema.names:
            raise InputError(f"{run.path}: its records have no difficulty", "see docs/families.md")
        have = [one.name for one in schema.field("features").type] if "features" in schema.names else []
        if missing := self.least.keys() - set(have):
            cure = f"its scores: {', '.join(have) or 'none'}"
            raise InputError(f"{run.path}: its records have no score {min(missing)!r}", cure)


EVERY = Where()


def _score(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = float("nan")
    if not name or not isfinite(least):
        raise InputError(f"--score {text}: is not NAME=LEAST", "e.g. --score quality_score=7")
    return name, least


def _reaches(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and value >= least

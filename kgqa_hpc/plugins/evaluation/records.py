"""Readers of dataset records and of the judges' verdicts in them: from a merged run, or a file of JSON lines.

Records are read line by line, so memory does not grow with their number. docs/reference/record.md lists their fields.
A verdict holds booleans and numbers. It is a vote when it has booleans (all must be true, as where a run decides) and
a score for ranking: the mean of its numbers, or without numbers the share of its booleans that are true. Text in a
verdict is a reason and never counted. Rated items are matched with records by id, else by text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kgqa_hpc.dataset.files import selector
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.agreement import MISSING, Codes, Floats
from kgqa_hpc.plugins.evaluation.ratings import Ratings
from kgqa_hpc.store.sums import COMBINED, require_whole
from kgqa_hpc.text.plain_text import shell_word
from kgqa_hpc.text.streams import json_objects

FILES = ("accepted.jsonl", "rejected.jsonl")
DECISION = "decision"  # name of the run's own decision in a table of judges


def records(source: Path, where: str | None = None) -> Iterator[dict[str, Any]]:
    """Each record of a run's or a combined dataset (accepted first), or of a file of JSON lines.

    `where`: an SQL expression that selects records of a run. Raises InputError for a source that is neither, a wrong
    expression, and with file and line for a line that is no JSON object with an `id`.
    """
    dataset = source if (source / COMBINED).is_file() else source / "dataset"
    files = [source] if source.is_file() else [dataset / name for name in FILES]
    if files != [source]:
        if not source.is_dir():
            raise InputError(f"{source}: no such run or file")
        if missing := [path for path in files if not path.is_file()]:
            raise InputError(f"{missing[0]}: is not there", f"first: kgqa merge {shell_word(source)}")
        require_whole(dataset, *FILES)
    elif where:
        raise InputError(f"{source}: --where needs a merged run", "name the run's folder")
    for path in files:
        holds = selector(path.parent, path.stem, where or "")
        for line, record in json_objects(path):
            if not isinstance(record.get("id"), str | int):
                raise InputError(f"{path} line {line}: no id", "every line is an object with an id")
            record["id"] = str(record["id"])
            if holds(record):
                yield record


class Opinion(NamedTuple):
    """A judge's vote on an item (True, False, or None without a vote) and its score."""

    vote: bool | None
    score: float | None

    @property
    def code(self) -> int:
        """The vote as 1, 0, or MISSING."""
        return MISSING if self.vote is None else int(self.vote)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Votes (items, judges; -1 missing) and scores (items, judges; NaN missing) of matched items.

    `items` are the ids in the ratings; `decided` are the run's own decisions. `by_id` and `by_text` count
    the items by how they were matched, `texts_differ` those with the same id but another text.
    """

    items: tuple[str, ...]
    judges: tuple[str, ...]
    votes: Codes
    scores: Floats
    decided: Codes
    by_id: int
    by_text: int
    texts_differ: int


def mapping(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A field of a record that is an object, empty where it has none. Raises InputError for another value."""
    value = record.get(name) or {}
    if not isinstance(value, dict):
        problem = f"record {record['id']!r}: {name} is not an object"
        raise InputError(problem, "docs/reference/record.md lists the fields of a record")
    return value


def opinion(verdict: Any) -> Opinion:
    """The vote and the score in a verdict: an object, or a bare boolean or number."""
    values = list(verdict.values()) if isinstance(verdict, dict) else [verdict]
    booleans = [value for value in values if isinstance(value, bool)]
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    vote = all(booleans) if booleans else None
    if numbers:
        return Opinion(vote, sum(numbers) / len(numbers))
    return Opinion(vote, sum(booleans) / len(booleans) if booleans else None)


def read_votes(source: Path) -> tuple[Codes, tuple[str, ...]]:
    """Votes (records, judges) of a source; judges in the order they first occur."""
    verdicts = (mapping(record, "verdicts") for record in records(source))
    opinions = ({name: opinion(verdict).vote for name, verdict in row.items()} for row in verdicts)
    table = pd.DataFrame({name: vote for name, vote in row.items() if vote is not None} for row in opinions)
    if table.columns.empty:
        cure = "verdicts hold booleans under a judge's name"
        raise InputError(f"{source}: no record has a judge's vote", cure)
    return table.astype(float).fillna(MISSING).to_numpy(np.int64), tuple(table.columns)


def read_verdicts(ratings: Ratings, sources: Sequence[Path], features: Sequence[str] = ()) -> Verdicts:
    """The verdicts of all sources (runs, or JSON lines with `id` and `verdicts`) on the rated items.

    `features` are names in the records' `features` to be taken for judges too, as scores are that a step gave.
    The names of judges begin with that of their source if there are several sources. Raises InputError when
    no record matches a rating, or none has a verdict or one of `features`.
    """
    texts = {row.id: _text(row.question, row.answer) for row in ratings.rated}
    by_text = {text: item for item, text in texts.items()}
    opinions: dict[str, dict[str, Opinion]] = {}
    by_id: dict[str, bool] = {}
    differing: set[str] = set()
    stems = [source.resolve().stem for source in sources]
    for source, stem in zip(sources, stems, strict=True):
        label = "" if len(sources) == 1 else f"{stem if stems.count(stem) == 1 else source}/"
        for record in records(source):
            text = _text(record.get("question"), record.get("answer"))
            item = record["id"] if record["id"] in texts else by_text.get(text)
            if item is None:
                continue
            by_id.setdefault(item, record["id"] in texts)
            if text and text != texts[item]:
                differing.add(item)
            opinions.setdefault(item, {}).update(_opinions(record, label, features))
    if not opinions:
        names = ", ".join(str(source) for source in sources)
        raise InputError(f"{names}: no record is one of the rated pairs", "rate a sample of this run")
    judges = tuple(dict.fromkeys(name for row in opinions.values() for name in row if name != DECISION))
    for name in features:
        if not any(judge == name or judge.endswith(f"/{name}") for judge in judges):
            cure = f"their judges: {', '.join(judges)}"
            raise InputError(f"--feature {name}: no rated record has it", cure)
    absent = Opinion(None, None)
    table = [[row.get(name, absent) for name in (*judges, DECISION)] for row in opinions.values()]
    votes = np.array([[judgement.code for judgement in row] for row in table], dtype=np.int64)
    # A score of None becomes NaN.
    scores = np.array([[judgement.score for judgement in row] for row in table], dtype=np.float64)
    if not judges and (votes == MISSING).all():
        cure = "give a run with a judge, or records with verdicts"
        raise InputError("the matched records hold no verdicts", cure)
    matched = sum(by_id.values())
    sizes = matched, len(by_id) - matched, len(differing)
    return Verdicts(tuple(opinions), judges, votes[:, :-1], scores[:, :-1], votes[:, -1], *sizes)


def _opinions(record: dict[str, Any], label: str, features: Sequence[str]) -> dict[str, Opinion]:
    scores = mapping(record, "features") if features else {}
    judged = mapping(record, "verdicts") | {name: scores[name] for name in features if name in scores}
    named = {label + name: opinion(verdict) for name, verdict in judged.items()}
    if isinstance(record.get("accepted"), bool):
        named[DECISION] = opinion(record["accepted"])
    return named


def _text(question: Any, answer: Any) -> str:
    """A pair for comparison: blanks do not matter. Empty when there is none."""
    if not (isinstance(question, str) and isinstance(answer, str)):
        return ""
    return " ".join(question.split()) + "\n" + " ".join(answer.split())

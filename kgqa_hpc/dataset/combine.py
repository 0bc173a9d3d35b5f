"""Several merged runs as one dataset: every id once, columns united, each run's records as they are.

Records are taken as their runs published them: decided and filtered. `provenance.run` says which run one is of. The
first run that has an id keeps it; later ones are counted as `combined`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kgqa_hpc import __version__
from kgqa_hpc.dataset.columns import COMMON, Columns, arrow_schema
from kgqa_hpc.dataset.exports.source import MARK, open_source, refuse_foreign
from kgqa_hpc.dataset.files import PART_BYTES, RecordFiles, write_sums
from kgqa_hpc.dataset.record import record_maker
from kgqa_hpc.errors import FingerprintMismatch, InputError
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.canonical import pretty
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder

FILES = ("accepted", "rejected")
MUST_AGREE = ("prompts", "passes")  # sections of a fingerprint: what wrote and judged


def combine(out: Path, runs: Sequence[RunFolder], *, mixed: bool = False) -> dict[str, Any]:
    """Write the folder `out`; returns combined.json: per run its digest and counts, and the total.

    Raises InputError for fewer than two runs, one without a dataset, or a folder of something else;
    FingerprintMismatch when runs differ in prompts or models and `mixed` is false.
    """
    if len({run.path.resolve() for run in runs}) < 2:
        raise InputError("combine needs two runs or more", "kgqa combine OUT RUN RUN")
    for run in runs:
        open_source(run)
    if not mixed:
        _require_alike(runs)
    refuse_foreign(out)
    columns = _united(runs)
    schema = arrow_schema(columns.all())
    with replaced_folder(out) as folder:
        (folder / MARK).write_text("combine\n", encoding="utf-8")
        told: list[dict[str, Any]] = [
            {"run": run.manifest().digest, "accepted": 0, "rejected": 0, "combined": 0} for run in runs
        ]
        sums: dict[str, str] = {}
        seen: set[str] = set()
        for name in FILES:
            with RecordFiles(folder, name, schema, (), PART_BYTES) as files:
                for number, record in _records(runs, name):
                    if record["id"] in seen:
                        told[number]["combined"] += 1
                        continue
                    seen.add(record["id"])
                    told[number][name] += 1
                    line = orjson.dumps(_in_order(columns, record), option=orjson.OPT_APPEND_NEWLINE)
                    files.add(line, np.array([len(line)]))
            sums |= files.sums
        total = {key: sum(one[key] for one in told) for key in (*FILES, "combined")}
        document = {"program": __version__, "runs": told, **total}
        (folder / "combined.json").write_bytes(pretty(document))
        write_sums(folder, sums)
    return document


def _require_alike(runs: Sequence[RunFolder]) -> None:
    first = runs[0].manifest().sections
    for run in runs[1:]:
        for name in MUST_AGREE:
            if run.manifest().sections[name]["sha256"] != first[name]["sha256"]:
                raise FingerprintMismatch(
                    f"{run.path} and {runs[0].path} differ in {name}",
                    "say --mixed to combine them all the same: provenance tells their records apart",
                )


def _united(runs: Sequence[RunFolder]) -> Columns:
    declared: dict[str, Any] = {}
    for run in runs:
        maker = record_maker(run_config(run), "")
        for column in maker.columns:
            known = declared.setdefault(column.name, column)
            if known.type != column.type:
                raise FingerprintMismatch(f"{run.path}: column {column.name} has another type than before")
    columns = Columns(tuple(declared.values()))
    for name in FILES:
        for _, record in _records(runs, name):
            columns.add(_without_nulls(record))
    return columns


def _without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """Without the labels this record never reached, which merge filled in."""
    parameters = {k: v for k, v in record["provenance"]["parameters"].items() if v is not None}
    verdicts = {k: v for k, v in record["verdicts"].items() if v is not None}
    return {**record, "verdicts": verdicts, "provenance": {**record["provenance"], "parameters": parameters}}


def _in_order(columns: Columns, record: dict[str, Any]) -> dict[str, Any]:
    """The record with all columns of any run, in one order; null where its run has none."""
    record = columns.conform(record)
    made = ("verdicts", "features", "provenance")
    names = [*(c.name for c in COMMON), *made, *(c.name for c in columns.declared)]
    return {name: record.get(name) for name in names}


def _records(runs: Sequence[RunFolder], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, run in enumerate(runs):
        with (run.dataset / f"{name}.jsonl").open("rb") as file:
            for line in file:
                yield number, orjson.loads(line)

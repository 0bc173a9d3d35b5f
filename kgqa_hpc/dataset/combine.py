"""Several merged runs as one dataset: every id once, columns united, each run's records as they are.

Records are taken as their runs published them: decided and filtered. `provenance.run` says which run one is of. The
first run that accepted an id gives its record, else the first that has it; the others are counted as `combined`. What
does not fit the conditions is counted as `filtered`, and where runs are mixed in shares, accepted records beyond a
run's share as `not drawn`: every record of a run is counted once.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kgqa_hpc import __version__
from kgqa_hpc.dataset.columns import COMMON, Columns, arrow_schema, without_json_text
from kgqa_hpc.dataset.combined_card import write_combined_card
from kgqa_hpc.dataset.exports.source import MARK, open_source, read_accounting, refuse_foreign
from kgqa_hpc.dataset.files import PART_BYTES, RecordFiles, write_sums
from kgqa_hpc.dataset.mixture import Mixture, counts_of, drawn, place
from kgqa_hpc.dataset.record import record_maker
from kgqa_hpc.dataset.where import EVERY, Where
from kgqa_hpc.dataset.whole import require_whole
from kgqa_hpc.errors import FingerprintMismatch, InputError
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.canonical import pretty, sha256_of
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder

FILES = ("accepted", "rejected")
MUST_AGREE = ("prompts", "passes")  # sections of a fingerprint: what wrote and judged
COUNTS = (*FILES, "combined", "filtered", "not drawn")


def combine(
    out: Path,
    runs: Sequence[RunFolder],
    *,
    mixed: bool = False,
    where: Where = EVERY,
    mixture: Mixture | None = None,
) -> dict[str, Any]:
    """Write the folder `out`; returns combined.json: per run its digest and counts, and the total.

    Raises InputError for fewer than two runs, one without a dataset or without a wanted column, a folder of something
    else, or shares that cannot be met; FingerprintMismatch when runs differ in prompts or models and `mixed` is false.
    """
    if len({run.path.resolve() for run in runs}) < 2:
        raise InputError("combine needs two runs or more", "kgqa combine OUT RUN RUN")
    if mixture is not None and len(mixture.shares) != len(runs):
        raise InputError(
            f"{len(mixture.shares)} shares for {len(runs)} runs", "one --share a run, in their order"
        )
    for run in runs:
        open_source(run)
        where.require(run)
    if not mixed:
        _require_alike(runs)
    refuse_foreign(out)
    columns, chosen = _look(runs, where, mixture)
    with replaced_folder(out) as folder:
        (folder / MARK).write_text("combine\n", encoding="utf-8")
        told = _write(folder, columns, _drawn(_fates(runs, where), chosen), len(runs))
        by_run = [{"run": run.manifest().digest, **counts} for run, counts in zip(runs, told, strict=True)]
        total = {key: sum(one[key] for one in told) for key in COUNTS}
        wishes = {"where": where.plain(), "mixture": None if mixture is None else asdict(mixture)}
        document = {"program": __version__, **wishes, "runs": by_run, **total}
        (folder / "combined.json").write_bytes(pretty(document))
        sums = {path.name: sha256_of(path) for path in folder.glob("*.parquet")}
        write_combined_card(folder, runs, document, sums)
        write_sums(folder, sums)
    return document


Fate = tuple[int, str, dict[str, Any]]  # number of the run, the count it goes into, record


def _fates(runs: Sequence[RunFolder], where: Where) -> Iterator[Fate]:
    """Every record of all runs, accepted ones first, with what becomes of it before any draw."""
    met: set[bytes] = set()  # 128-bit digests of the ids, 80 bytes each
    for name in FILES:
        for number, record in _records(runs, name):
            if not where.holds(record):
                yield number, "filtered", record
            else:
                digest = hashlib.blake2b(
                    record["id"].encode("utf-8", "surrogatepass"), digest_size=16
                ).digest()
                yield number, "combined" if digest in met else name, record
                met.add(digest)


def _drawn(fates: Iterator[Fate], chosen: Sequence[Iterator[bool]] | None) -> Iterator[Fate]:
    """The same after the draw, `chosen` being for each run which of its accepted records are drawn."""
    for number, fate, record in fates:
        out = chosen is not None and fate == "accepted" and not next(chosen[number])
        yield number, "not drawn" if out else fate, record


def _look(
    runs: Sequence[RunFolder], where: Where, mixture: Mixture | None
) -> tuple[Columns, Sequence[Iterator[bool]] | None]:
    """The columns of all that may be kept, and which accepted records are drawn."""
    columns = _declared(runs)
    places: list[array[int]] = [array("Q") for _ in runs]
    for number, fate, record in _fates(runs, where):
        if fate in FILES:
            columns.add(_without_nulls(record))
        if fate == "accepted" and mixture is not None:
            places[number].append(place(mixture.seed, record["id"]))
    if mixture is None:
        return columns, None
    counts = counts_of([len(one) for one in places], mixture.shares, mixture.number)
    return columns, [iter(drawn(one, count).tolist()) for one, count in zip(places, counts, strict=True)]


def _write(folder: Path, columns: Columns, fates: Iterator[Fate], runs: int) -> list[dict[str, int]]:
    """Write what is kept; returns the counts of each run."""
    schema = arrow_schema(columns.all())
    told = [dict.fromkeys(COUNTS, 0) for _ in range(runs)]
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(RecordFiles(folder, name, schema, (), PART_BYTES)) for name in FILES
        }
        for number, fate, record in fates:
            told[number][fate] += 1
            if fate in files:
                line = orjson.dumps(_in_order(columns, record), option=orjson.OPT_APPEND_NEWLINE)
                files[fate].add(line, np.array([len(line)]))
    return told


def _require_alike(runs: Sequence[RunFolder]) -> None:
    first = runs[0].manifest().sections
    for run in runs[1:]:
        for name in MUST_AGREE:
            if run.manifest().sections[name]["sha256"] != first[name]["sha256"]:
                raise FingerprintMismatch(
                    f"{run.path} and {runs[0].path} differ in {name}",
                    "say --mixed to combine them all the same: provenance tells their records apart",
                )


def _declared(runs: Sequence[RunFolder]) -> Columns:
    declared: dict[str, Any] = {}
    for run in runs:
        maker = record_maker(run_config(run), "")
        for column in maker.columns:
            known = declared.setdefault(column.name, column)
            if known.type != column.type:
                raise FingerprintMismatch(f"{run.path}: column {column.name} has another type than before")
    return Columns(tuple(declared.values()))


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
    """Records as they were before their run made JSON text of a field: which fields are is for all runs to say."""
    for number, run in enumerate(runs):
        places = read_accounting(run).get("json_text", [])
        require_whole(run.dataset, f"{name}.jsonl")
        with (run.dataset / f"{name}.jsonl").open("rb") as file:
            for line in file:
                yield number, without_json_text(orjson.loads(line), places)

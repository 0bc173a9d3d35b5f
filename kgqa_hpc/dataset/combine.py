"""`kgqa combine`: several merged runs as one dataset with a README.md, each id once, with the columns of all runs.

Records keep the decisions of their runs; `provenance.run` names the run. Of several records with the same id the
first accepted one is kept, else the first; the others are counted as `combined`. Records that do not match the
condition are counted as `filtered`, and with shares, accepted records beyond a run's share as `not drawn`. So every
record of a run is counted once.

A mixture (`kgqa combine --share`) takes records of several runs in given proportions. Numbers follow the
largest-remainder method (Hamilton): every run gets the integer part of its quota, and the remaining records go to the
largest remainders, the earlier run first on a tie.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import islice
from math import floor, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc import __version__
from kgqa_hpc.dataset.candidates import Candidates, Staged, StagedFile, draw_key, open_candidates, repeated
from kgqa_hpc.dataset.card import configurations, data_files, templates, yaml_text
from kgqa_hpc.dataset.columns import COMMON, Columns, without_json_text
from kgqa_hpc.dataset.facts import gather_facts
from kgqa_hpc.dataset.files import open_source, read_accounting, read_records, selector
from kgqa_hpc.dataset.publish import MARK, refuse_foreign
from kgqa_hpc.dataset.record import THOUGHTS, RecordMaker
from kgqa_hpc.dataset.stage import SUFFIX, as_line, staged_table, write_staged
from kgqa_hpc.dataset.write import fate_of, write_dataset
from kgqa_hpc.errors import FingerprintMismatch, InputError
from kgqa_hpc.runs import run_config
from kgqa_hpc.store.canonical import pretty, sha256_of
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sums import COMBINED, write_sums

CHUNK = 1000  # largest number of records in a staged file
FILES = ("accepted", "rejected")
MUST_AGREE = ("prompts", "passes")  # sections of a fingerprint that describe writer and judges
COUNTS = (*FILES, "combined", "filtered", "not drawn")


@dataclass(frozen=True, slots=True)
class Mixture:
    """Proportions of the runs' accepted records: one share per run, and the total `number` (None: the largest
    possible).
    """

    shares: Sequence[float]
    number: int | None = None
    seed: int = 42

    def __post_init__(self) -> None:
        if not all(isfinite(share) and share > 0 for share in self.shares):
            raise InputError(f"shares {list(self.shares)}: each must be above 0", "leave the run out instead")


def counts_of(available: Sequence[int], shares: Sequence[float], number: int | None) -> list[int]:
    """The number of records of each run, `number` in all, in the ratio of `shares`, which need not sum to one.

    Default: the largest number at which no run has to give more records than are `available`. Raises InputError for
    too many.
    """
    exact = [Fraction(str(share)) for share in shares]
    most = min(floor(have * sum(exact) / share) for have, share in zip(available, exact, strict=True))
    number = most if number is None else number
    quotas = [number * share / sum(exact) for share in exact]
    counts = [floor(quota) for quota in quotas]
    by_rest = sorted(range(len(shares)), key=lambda i: (counts[i] - quotas[i], i))
    for i in by_rest[: number - sum(counts)]:
        counts[i] += 1
    for at, (count, have) in enumerate(zip(counts, available, strict=True), start=1):
        if count > have:
            raise InputError(
                f"run {at} has {have:,} accepted records that fit, its share of {number:,} is {count:,}",
                f"ask for at most {most:,}, or change the shares",
            )
    return counts


def combine(
    out: Path,
    runs: Sequence[RunFolder],
    *,
    mixed: bool = False,
    where: str = "",
    mixture: Mixture | None = None,
) -> dict[str, Any]:
    """Write the folder `out`; returns combined.json: per run its digest and counts, and the total.

    Raises InputError for fewer than two runs, a run without a dataset or a requested column, an `out` folder
    with other content, or shares that cannot be met; FingerprintMismatch when runs differ in prompts or
    models and `mixed` is false.
    """
    if len({run.path.resolve() for run in runs}) < 2:
        raise InputError("combine needs two runs or more", "kgqa combine OUT RUN RUN")
    if mixture is not None and len(mixture.shares) != len(runs):
        raise InputError(
            f"{len(mixture.shares)} shares for {len(runs)} runs", "give one --share per run, in order"
        )
    for run in runs:
        open_source(run, where)  # raises for a wrong condition before anything is written
    sections = [run.manifest().sections for run in runs]
    for run, section in zip(runs, sections, strict=True):
        for name in () if mixed else MUST_AGREE:
            if section[name]["sha256"] != sections[0][name]["sha256"]:
                raise FingerprintMismatch(
                    f"{run.path} and {runs[0].path} differ in {name}",
                    "say --mixed to combine them all the same: provenance tells their records apart",
                )
    refuse_foreign(out)
    with replaced_folder(out) as folder:
        (folder / MARK).write_text("combine\n", encoding="utf-8")
        counts = _write(folder, runs, where, mixture)
        by_run = [{"run": run.manifest().digest, **count} for run, count in zip(runs, counts, strict=True)]
        total = {key: sum(count[key] for count in counts) for key in COUNTS}
        wishes = {"where": where or None, "mixture": None if mixture is None else asdict(mixture)}
        document = {"program": __version__, **wishes, "runs": by_run, **total}
        (folder / COMBINED).write_bytes(pretty(document))
        sums = {path.name: sha256_of(path) for path in folder.glob("*.parquet")}
        _write_card(folder, runs, document, sums)
        write_sums(folder, sums)
    return document


def _write(
    folder: Path, runs: Sequence[RunFolder], where: str, mixture: Mixture | None
) -> list[dict[str, int]]:
    """Write the combined records; returns the counts of each run."""
    scratch = folder / ".scratch"
    scratch.mkdir()
    staged = _stage(runs, where, scratch)
    with open_candidates(staged, scratch) as candidates:
        candidates.reject_where(repeated("status <> 'filtered'"), None, "combined")
        if mixture is not None:
            _draw(candidates, mixture)
        counts = [dict.fromkeys(COUNTS, 0) for _ in runs]
        query = "SELECT grp, status, count(*) FROM candidate GROUP BY ALL"
        for number, status, count in candidates.database.execute(query).fetchall():
            counts[int(number)][status] = count
        fate = fate_of(candidates)
    write_dataset(folder, fate, files=FILES)
    shutil.rmtree(scratch)
    return counts


def _stage(runs: Sequence[RunFolder], where: str, scratch: Path) -> Staged:
    """Staged files of the records of all runs, accepted ones first.

    Column `grp` is the position of the run, `status` the record's status in its run or `filtered`, `same` a digest of
    its id. Members of a record that its run lacks are null.
    """
    columns, files = _declared(runs), list[StagedFile]()
    # Files with equal columns share an object, which keeps parts of its records.
    layouts: dict[bytes, Columns] = {}
    common = [column.name for column in COMMON]
    names = (*common, "verdicts", "features", "provenance", *(column.name for column in columns.declared))
    for name in FILES:
        for run_number, run in enumerate(runs):
            holds, records = selector(run.dataset, name, where), read_records(run.dataset, name)
            json_text = read_accounting(run).get("json_text", [])
            while chunk := list(islice(records, CHUNK)):
                collected, rows = Columns(), []
                for record in chunk:
                    row = {"id": record["id"], "grp": str(run_number), "single": True, "record": None}
                    digest = hashlib.blake2b(record["id"].encode("utf-8", "surrogatepass"), digest_size=16)
                    row |= {"reason": record["reason"], "same": digest.digest(), "status": "filtered"}
                    if holds(record):
                        # Which fields become JSON text depends on all runs together.
                        plain = without_json_text({key: record.get(key) for key in names}, json_text)
                        row |= {"status": name, **as_line(plain, collected)}
                    rows.append(row)
                path = scratch / f"records-{len(files):05d}{SUFFIX}"
                write_staged(path, staged_table(rows, collected))
                files.append(StagedFile(path, len(rows), layouts.setdefault(collected.layout(), collected)))
                columns.take(collected.types)
    return Staged(files, columns)


def _draw(candidates: Candidates, mixture: Mixture) -> None:
    """Mark accepted records beyond each run's share as not drawn. Raises InputError for shares that cannot be met."""
    rows = [candidates.rows(f"status = 'accepted' AND grp = '{n}'") for n in range(len(mixture.shares))]
    counts = counts_of([len(accepted_rows) for accepted_rows in rows], mixture.shares, mixture.number)
    for accepted, count in zip(rows, counts, strict=True):
        tables = candidates.staged.read(["id"], accepted)
        ids = [record for _, table in tables for record in table["id"].to_pylist()]
        keys = np.array([draw_key(mixture.seed, "mixture", record) for record in ids], np.uint64)
        candidates.reject(np.sort(accepted[np.argsort(keys, kind="stable")[count:]]), None, "not drawn")


def _declared(runs: Sequence[RunFolder]) -> Columns:
    declared: dict[str, Any] = {}
    for run in runs:
        for column in RecordMaker(run_config(run)).columns:
            earlier = declared.setdefault(column.name, column)
            if column.name == THOUGHTS and isinstance(column.type, dict) and isinstance(earlier.type, dict):
                # The thoughts have a field per step: take the fields of both columns.
                declared[THOUGHTS] = column._replace(type={**earlier.type, **column.type})
            elif earlier.type != column.type:
                raise FingerprintMismatch(f"{run.path}: column {column.name} has another type than before")
    return Columns(tuple(declared.values()))


def _write_card(
    folder: Path, runs: Sequence[RunFolder], document: Mapping[str, Any], sums: dict[str, str]
) -> None:
    """Write folder/README.md; `document` is the content of combined.json, `sums` maps file names to sha256."""
    front = {
        "pretty_name": "Questions and answers of several runs",
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["synthetic"],
        **configurations(data_files(folder), sums),
    }
    rows = list(zip(document["runs"], map(gather_facts, runs), strict=True))
    template = templates("kgqa_hpc.dataset").get_template("combined_card.md.j2")
    card = template.render(document, front_matter=yaml_text(front), counts=COUNTS, rows=rows)
    (folder / "README.md").write_text(card, encoding="utf-8")

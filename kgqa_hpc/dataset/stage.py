"""Staging, the first phase of merge: a finished shard becomes one Parquet file of candidate records.

Each candidate is a row: its outcome so far, its lengths, and its record as a line of JSON without the fields
that are decided later. Counts of the whole shard (`ShardFacts`) are in the file's metadata. Staged files
depend on the results and the configuration alone, so any process may make them, even twice. The last steps of
a pass that send no request are computed again, with the settings of `dataset.steps`.

A shard that cannot be staged gets a staged file with the error instead of rows: the merge raises all errors together.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig, decision_of
from kgqa_hpc.dataset.accounting import OUTCOMES, RequestCounts
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.record import RecordMaker, lost_record, pair_of
from kgqa_hpc.dataset.words import Signatures, words
from kgqa_hpc.errors import AccountingError, KgqaError
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.runs.open import kept_prompts
from kgqa_hpc.runs.trust import texts_of
from kgqa_hpc.steps.item import Done, Outcome, Retry
from kgqa_hpc.steps.lifecycle import begin, end, retrace
from kgqa_hpc.store.atomic import write_file
from kgqa_hpc.store.run_folder import RunFolder

SUFFIX = ".parquet"
FACTS = b"kgqa"  # the key of ShardFacts in a file's metadata
# Columns of a staged file. `question_length`, `answer_length`: characters (null: no pair). `bytes`: approximate length
# of `record`, the JSON of the record without its closing brace (null: no pair).
# `lost`: the line for lost.jsonl (null: none). `single`: the row stands for its item, not for one of a list of records.
# `same`, `words`: the question's words and their digest, in rows that judges accepted, to find duplicates.
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("grp", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("question_length", pa.int32()),
        ("answer_length", pa.int32()),
        ("single", pa.bool_()),
        ("bytes", pa.int32()),
        ("record", pa.string()),
        ("lost", pa.string()),
        ("same", pa.binary(16)),
        ("words", pa.string()),
    ]
)


@dataclass(slots=True)
class ShardFacts:
    """Facts about a shard, stored beside its rows.

    `sampled`: digest of ids and groups of its anchors; `waiting`: groups of the items that have not ended; `lists`:
    (group, status, reason) of items that yielded a list of records; `requests`: RequestCounts.rows(); `columns`:
    Columns.state(), the columns that its lines have; `problem`: class, message and cure of the error that kept the
    shard from being staged.
    """

    sampled: str = ""
    waiting: list[str] = field(default_factory=list)
    lists: list[tuple[str, str, str | None]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    columns: list[Any] = field(default_factory=list)
    problem: tuple[str, str, str] | None = None


class Stager:
    """Stager of the shards of a run. Raises InputError when near duplicates are wanted and rensa is missing."""

    def __init__(self, work: FinishedWork) -> None:
        duplicates = work.config.dataset.duplicates
        self._work = work
        self._maker = RecordMaker(work.config, work.run.manifest().digest, texts_of(work.run))
        self._decision = decision_of(work.config)
        self._signatures = Signatures(work.config)
        self._redo = Redo(work.run, work.config) if work.config.dataset.steps else None
        self._compares = duplicates is not None and (duplicates.exact or duplicates.near is not None)

    def write(self, name: str, folder: Path) -> None:
        """Write folder/`name`.parquet whole or not at all, without rows when the shard cannot be staged.

        Raises DiskFull, StoreError when the file cannot be written.
        """
        try:
            table = self.table(name)
        except KgqaError as problem:
            failed = {"problem": [type(problem).__name__, problem.message, problem.cure]}
            table = SCHEMA.empty_table().replace_schema_metadata({FACTS: orjson.dumps(failed)})
        write_staged(folder / f"{name}{SUFFIX}", table)

    def table(self, name: str) -> pa.Table:
        """The rows of a shard, with its ShardFacts in the schema's metadata.

        Raises CorruptFile (the result is then in quarantine), AccountingError, StoreError.
        """
        entry = self._work.manifest.entry(name)
        facts, columns, requests = ShardFacts(), Columns(self._maker.columns), RequestCounts()
        rows: list[dict[str, Any]] = []
        ids: list[str] = []
        groups: list[str] = []
        number = 1
        try:
            for plain, item in self._work.pairs(entry):
                anchor = Anchor.from_dict(plain)
                ids.append(anchor.id)
                groups.append(anchor.group)
                if item is None:  # unfinished
                    facts.waiting.append(anchor.group)
                else:
                    item = item if self._redo is None else self._redo.item(anchor, item)
                    requests.add(item)
                    for row in self._rows(anchor, item, facts):
                        rows.append(row)
                        if row["record"] is not None:
                            columns.add(row["record"])
                number += 1
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
            raise AccountingError(
                f"{name}: item {number} of {entry.items} is none that a worker writes: "
                f"{type(problem).__name__}: {problem}",
                f"move its result out of {self._work.run.results(self._work.pass_name)} and `kgqa run` redoes it; "
                "please report it when nobody wrote there but kgqa",
            ) from problem
        facts.sampled = sampled_digest(ids, groups)
        facts.requests, facts.columns = requests.rows(), columns.state()
        table = staged_table(rows, columns)
        bands = self._signatures.columns([row["words"] for row in rows])
        for column, values in zip(self._signatures.schema, bands, strict=True):
            table = table.append_column(column, values)
        return table.replace_schema_metadata({FACTS: orjson.dumps(asdict(facts))})

    def _rows(self, anchor: Anchor, item: dict[str, Any], facts: ShardFacts) -> Iterator[dict[str, Any]]:
        """The rows of a finished item: its record or its line in lost.jsonl, or its list of records."""
        status, reason = item["status"], item["reason"]
        if status not in OUTCOMES:
            raise AccountingError(
                f"an item ended with the status {status!r}, which is no outcome", "please report it"
            )
        if item["decided"]:  # by verdicts: apply the present decision rule
            reason = self._decision.reason(item["verdicts"])
            status = "accepted" if reason is None else "rejected"
        if item["records"] is None:
            pair = pair_of(item["output"])
            if pair is None and status == "accepted":
                raise AccountingError(f"{anchor.id} is accepted and has no question", "please report it")
            record = self._maker.record(anchor, item, item["output"]) if pair else None
            yield self._row(anchor, item, status, reason, record)
            return
        facts.lists.append((anchor.group, status, reason))
        if status in ("invalid", "failed"):
            yield self._row(anchor, item, status, reason, None)
        for number, entry in enumerate(item["records"], start=1):
            if pair_of(entry) is None:
                raise AccountingError(f"{anchor.id}: record {number} has no question", "please report it")
            record = self._maker.record(anchor, item, entry, number)
            why = entry.get("reason") or (reason if status == "rejected" else None)
            yield self._row(anchor, item, "rejected" if why else "accepted", why, record)

    def _row(
        self, anchor: Anchor, item: Any, status: str, reason: str | None, record: dict[str, Any] | None
    ) -> dict[str, Any]:
        lost = lost_record(anchor, item) if record is None or status in ("invalid", "failed") else None
        text = digest = None
        if self._compares and record is not None and status == "accepted":
            text = " ".join(words(record["question"]))
            digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        return {
            "id": anchor.id if record is None else record["id"],
            "grp": anchor.group,
            "status": status,
            "reason": reason,
            "question_length": record and len(record["question"]),
            "answer_length": record and len(record["answer"]),
            "single": item["records"] is None,
            "record": record,
            "lost": lost and orjson.dumps(lost),
            "same": digest,
            "words": text,
        }


def staged_table(rows: list[dict[str, Any]], columns: Columns) -> pa.Table:
    """Rows as a table of SCHEMA, each record as a line of JSON with all columns; changes the rows."""
    for row in rows:
        if (record := row["record"]) is not None:
            # Lengths are taken before nulls are added, because the number of nulls depends on the shard.
            row["bytes"] = len(orjson.dumps(record))
            row["record"] = orjson.dumps(columns.conform(record))[:-1]
    return pa.table({name: [row.get(name) for row in rows] for name in SCHEMA.names}, SCHEMA)


def write_staged(path: Path, table: pa.Table) -> None:
    """Write a staged file whole or not at all, with checksums of its pages. Raises DiskFull, StoreError."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="lz4",  # fast, because staged files are read once or twice
        use_dictionary=["grp", "status", "reason"],
        write_statistics=False,
        write_page_checksum=True,
    )
    write_file(path, sink.getvalue(), durable=False)


def sampled_digest(ids: list[str], groups: list[str]) -> str:
    """A digest of the anchors of a shard, given as they are stored."""
    return hashlib.blake2b(orjson.dumps([ids, groups]), digest_size=16).hexdigest()


class Redo:
    """The steps of a run with the settings of `dataset.steps`; `item` computes an item's record again with
    them.
    """

    def __init__(self, run: RunFolder, config: RunConfig) -> None:
        changed = config.with_last_steps()
        self._chain = [
            step
            for pass_config in changed.passes
            for step in build_chain(changed, pass_config.name, prompts=kept_prompts(run))
        ]
        self._labels = tuple(config.dataset.steps or ())
        self._seed = config.seed

    def item(self, anchor: Anchor, record: Mapping[str, Any]) -> dict[str, Any]:
        """The item's record in the form of results, computed again if the item was accepted or ended by a
        repeated step.
        """
        reason = record["reason"] or ""
        if record["status"] != "accepted" and not any(
            reason.startswith(f"{label}:") for label in self._labels
        ):
            return dict(record)
        trace = record["trace"]
        item = begin(self._chain[0].context.kind, anchor)
        retrace(self._chain, item, trace, self._seed, record["output"])
        asked = [step.label for step in self._chain].index(trace[-1]["step"]) + 1 if trace else 0
        outcome: Outcome = Done()
        step = self._chain[-1]
        for step in self._chain[asked:]:
            try:
                outcome = step.run(item)
            except (KgqaError, MemoryError):
                raise
            except (Exception, SystemExit) as problem:  # noqa: BLE001  counted, as a worker counts it
                outcome = Retry(type(problem).__name__, lost_as="failed")
            if not isinstance(outcome, Done):
                break
        end(item, outcome, step.context.kind, step.label)
        item.trace = trace
        return item.to_record()

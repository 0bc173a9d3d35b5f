"""Staging, the first phase of merge: a finished shard becomes one Parquet file of candidate records.

Each candidate is a row: its outcome so far, its lengths, and its record as a line of JSON without the fields
that are decided later. Facts about the whole shard are in the file's metadata. Staged files
depend on the results and the configuration alone, so any process may make them, even twice. The last steps of
a pass that send no request are computed again, with the settings of `dataset.steps`.

A shard that cannot be staged gets a staged file with the error instead of rows: the merge raises all errors together.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc import errors
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig, decision_of
from kgqa_hpc.dataset.accounting import OUTCOMES, Accounting, RecordCounts, RequestCounts
from kgqa_hpc.dataset.candidates import Staged, StagedFile, removed_if_damaged
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.duplicates import signatures, words
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.record import RecordMaker, lost_record, pair_of
from kgqa_hpc.errors import AccountingError, CorruptFile, KgqaError
from kgqa_hpc.runs import kept_prompts
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.runs.trust import texts_of
from kgqa_hpc.steps.item import Done, Outcome, Retry, begin, end
from kgqa_hpc.steps.step import retrace
from kgqa_hpc.store.atomic import write_file
from kgqa_hpc.store.run_folder import RunFolder

SUFFIX = ".parquet"
# The key, in a file's metadata, of the facts about its shard: `sampled`: digest of ids and groups of its anchors;
# `waiting`: groups of the items that have not ended; `lists`: (group, status, reason) of items that yielded a list
# of records; `requests`: RequestCounts.rows(); `columns`: Columns.types of its lines. Or `problem` alone: class,
# message and cure of the error that kept the shard from being staged.
FACTS = b"kgqa"
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


class Stager:
    """Stager of the shards of a run. Raises InputError when near duplicates are wanted and rensa is missing."""

    def __init__(self, work: FinishedWork) -> None:
        duplicates = work.config.dataset.duplicates
        self._work = work
        self._maker = RecordMaker(work.config, work.run.manifest().digest, texts_of(work.run))
        self._decision = decision_of(work.config)
        self._sign = signatures(work.config)
        self._redo = repeated_steps(work.run, work.config)
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
        """The rows of a shard, with its facts in the schema's metadata.

        Raises CorruptFile (the result is then in quarantine), AccountingError, StoreError.
        """
        entry = self._work.manifest.entry(name)
        columns, requests = Columns(self._maker.columns), RequestCounts()
        waiting, lists = list[str](), list[tuple[str, str, str | None]]()
        rows: list[dict[str, Any]] = []
        ids: list[str] = []
        groups: list[str] = []
        number = 1
        try:
            for plain, item in self._work.pairs(entry):
                anchor = Anchor.from_dict(plain)
                ids.append(anchor.id)
                groups.append(anchor.group)
                if item is None:  # the item is unfinished
                    waiting.append(anchor.group)
                else:
                    item = self._redo(anchor, item)
                    requests.add(item)
                    for row in self._rows(anchor, item, lists):
                        if row["record"] is not None:
                            row |= as_line(row["record"], columns)
                        rows.append(row)
                number += 1
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
            raise AccountingError(
                f"{name}: item {number} of {entry.items} is none that a worker writes: "
                f"{type(problem).__name__}: {problem}",
                f"move its result out of {self._work.run.results(self._work.pass_name)} and `kgqa run` redoes it; "
                "please report it when nobody wrote there but kgqa",
            ) from problem
        facts = {
            "sampled": sampled_digest(ids, groups),
            "waiting": waiting,
            "lists": lists,
            "requests": requests.rows(),
            "columns": columns.types,
        }
        table = self._sign(staged_table(rows, columns))
        return table.replace_schema_metadata({FACTS: orjson.dumps(facts)})

    def _rows(self, anchor: Anchor, item: dict[str, Any], lists: list[Any]) -> Iterator[dict[str, Any]]:
        """The rows of a finished item: its record or its line in lost.jsonl, or its list of records.

        A lost item has no records. The outcome of an item with a list of records is added to `lists`.
        """
        status, reason = item["status"], item["reason"]
        if status not in OUTCOMES:
            raise AccountingError(
                f"an item ended with the status {status!r}, which is no outcome", "please report it"
            )
        if item["decided"]:  # verdicts alone decided it: apply the present rule
            reason = self._decision.reason(item["verdicts"])
            status = "accepted" if reason is None else "rejected"
        if item["records"] is None:
            pair = pair_of(item["output"])
            if pair is None and status == "accepted":
                raise AccountingError(f"{anchor.id} is accepted and has no question", "please report it")
            record = self._maker.record(anchor, item, item["output"]) if pair else None
            yield self._row(anchor, item, status, reason, record)
            return
        lists.append((anchor.group, status, reason))
        if status in ("invalid", "failed"):
            yield self._row(anchor, item, status, reason, None)
            return
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
            # Without its names, "What does the protein do?" is another question for each protein.
            text = " ".join(words(record.get("question_with_names") or record["question"]))
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


def as_line(record: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """Members of a row: a record as JSON, its length, and the version of the columns for which it is complete."""
    # The length is taken before nulls are added, because their number depends on the shard.
    line = orjson.dumps(record)
    return {"record": line, "bytes": len(line), "version": columns.add(record)}


def staged_table(rows: list[dict[str, Any]], columns: Columns) -> pa.Table:
    """Rows as a table of SCHEMA, each record (`as_line`) with all columns; changes the rows."""
    for row in rows:
        if (line := row["record"]) is not None:
            if row["version"] != columns.version:
                line = orjson.dumps(columns.conform(orjson.loads(line)))
            row["record"] = line[:-1]
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


def repeated_steps(run: RunFolder, config: RunConfig) -> Callable[[Anchor, dict[str, Any]], dict[str, Any]]:
    """A function that computes an item's record again with the settings of `dataset.steps`.

    It changes items that were accepted or ended by a repeated step; without `dataset.steps` none.
    """
    if not config.dataset.steps:
        return lambda anchor, record: record
    changed, prompts = config.with_last_steps(), kept_prompts(run)
    chain = [step for part in changed.passes for step in build_chain(changed, part.name, prompts=prompts)]
    ends = tuple(f"{label}:" for label in config.dataset.steps)

    def redo(anchor: Anchor, record: dict[str, Any]) -> dict[str, Any]:
        if record["status"] != "accepted" and not (record["reason"] or "").startswith(ends):
            return record
        trace, step = record["trace"], chain[-1]
        item = begin(chain[0].context.kind, anchor)
        retrace(chain, item, trace, record["output"])
        asked = [step.label for step in chain].index(trace[-1]["step"]) + 1 if trace else 0
        outcome: Outcome = Done()
        for step in chain[asked:]:
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

    return redo


def collect_staged(work: FinishedWork, folder: Path) -> tuple[Staged, Accounting]:
    """The staged files of a run, and the accounting of everything that does not depend on filters.

    Raises AccountingError when shards are not the anchors, CorruptFile naming all damaged results, after each was
    moved to quarantine, StoreError for a damaged staged file.
    """
    accounting = Accounting(shards=len(work.manifest.shards), missing_shards=len(work.missing))
    columns, requests = Columns(RecordMaker(work.config).columns), RequestCounts()
    files: list[StagedFile] = []
    layouts: dict[bytes, Columns] = {}  # files with equal columns share an object of some kB
    problems: list[KgqaError] = []
    for entry, ids, groups in work.sampled():
        path = folder / f"{entry.name}{SUFFIX}"
        with removed_if_damaged(path):
            metadata = pq.read_metadata(path)
            facts = orjson.loads(metadata.metadata[FACTS])
        if "problem" in facts:
            kind, message, cure = facts["problem"]
            problems.append(getattr(errors, kind)(message, cure))
            path.unlink(missing_ok=True)  # the next merge tries again
            continue
        if facts["sampled"] != sampled_digest(ids, groups):
            raise AccountingError(
                f"{entry.name} holds other anchors than its slice of anchors.h5",
                "restore anchors.h5, or run anew",
            )
        collected = Columns()
        collected.take(facts["columns"])
        files.append(StagedFile(path, metadata.num_rows, layouts.setdefault(collected.layout(), collected)))
        columns.take(facts["columns"])
        requests.take(facts["requests"])
        for name, number in Counter(groups).items():
            accounting.group(name).sampled += number
        for name in facts["waiting"]:
            accounting.group(name).waiting += 1
        for name, status, reason in facts["lists"]:
            accounting.group(name).add(status, reason)
            accounting.records.setdefault(name, RecordCounts())  # each of its lists may be empty
    # Raise the first error that is no damaged result, or else one error that names all damaged results.
    for problem in problems:
        if len(problems) == 1 or not isinstance(problem, CorruptFile):
            raise problem
    if problems:
        messages = "\n       ".join(sorted(problem.message for problem in problems)[:10])
        raise CorruptFile(f"{len(problems)} results are damaged\n       {messages}", problems[0].cure)
    accounting.requests = requests.rows()
    accounting.json_text = columns.json_text()
    return Staged(files, columns), accounting

"""From results to RUN/dataset: two streams over all shards, memory for a row group, counts that add up.

The first stream gathers what needs all items (length limits, columns, request counts), the second one writes.
The folder changes as a whole (swap.py), and its bytes follow from the results alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from kgqa_hpc import __version__
from kgqa_hpc.dataset.accounting import LENGTH, Accounting
from kgqa_hpc.dataset.card import render_card
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.croissant import croissant
from kgqa_hpc.dataset.export import FILE as PUBLISHED
from kgqa_hpc.dataset.export import published_record
from kgqa_hpc.dataset.facts import gather_facts, shape_totals
from kgqa_hpc.dataset.files import JsonLines, RecordFiles, write_sums
from kgqa_hpc.dataset.lengths import LengthLimits, PairLengths, parsed_pair
from kgqa_hpc.dataset.read import FinishedWork, Pair, open_work
from kgqa_hpc.dataset.record import Origin, build_record, lost_record, parameters
from kgqa_hpc.dataset.requests import RequestTally
from kgqa_hpc.dataset.shape_table import shape_table
from kgqa_hpc.dataset.swap import replaced_folder
from kgqa_hpc.errors import AccountingError, CorruptFile
from kgqa_hpc.store.canonical import pretty
from kgqa_hpc.store.run import RunFolder

Progress = Callable[[int, int, str], None]


def merge(
    run: RunFolder, *, partial: bool = False, published: bool = False, progress: Progress | None = None
) -> Accounting:
    """Write RUN/dataset and return its accounting.

    `partial` merges an unfinished run, `published` adds biographletqa.jsonl, `progress(done, total, label)`
    is told of every shard. Raises AccountingError when work is left or counts do not add up, CorruptFile when
    a result is damaged (it is then in quarantine), DiskFull; RUN/dataset is what it was after each.
    """
    work = open_work(run)
    _require_finished(work, partial)
    survey = _Survey(work, progress or (lambda done, total, label: None))
    with replaced_folder(run.dataset) as folder:
        accounting = survey.accounting
        _write_records(folder, work, survey, published)
        accounting.check()
        _write_documents(folder, run, accounting, PUBLISHED if published else None)
    return accounting


def _require_finished(work: FinishedWork, partial: bool) -> None:
    missing, total = len(work.missing), len(work.manifest.shards)
    if missing and not partial:
        raise AccountingError(
            f"{missing:,} of {total:,} shards are not done, no dataset was written",
            f"run `kgqa run {work.run.path}` again, or merge what is there with --partial",
        )


class _Survey:
    """What the first stream over all items finds out."""

    def __init__(self, work: FinishedWork, progress: Progress) -> None:
        self.columns = Columns()
        self.progress = progress
        self.accounting = Accounting(shards=len(work.manifest.shards), missing_shards=len(work.missing))
        lengths, requests = PairLengths(), RequestTally()
        corrupt: list[CorruptFile] = []
        for position, (entry, sampled) in enumerate(work.sampled()):
            for _, shape in sampled:
                self.accounting.tally(shape).sampled += 1
                self.accounting.tally(shape).waiting += entry.name not in work.done
            if entry.name in work.done:
                try:
                    pairs = work.pairs(entry)
                except CorruptFile as problem:
                    corrupt.append(problem)
                    continue
                _require_same(sampled, pairs, entry.name)
                for _, item in pairs:
                    requests.add(item)
                    if pair := parsed_pair(item):
                        lengths.add(pair)
                        self.columns.add(item["verdicts"], parameters(item["trace"]))
            progress(position + 1, 2 * self.accounting.shards, "merge")
        _raise_together(corrupt)
        self.limits: LengthLimits = lengths.limits(work.config.dataset.z_score)
        self.accounting.lengths = self.limits.to_dict()
        self.accounting.requests = requests.rows()


def _require_same(sampled: list[tuple[str, int]], pairs: list[Pair], shard: str) -> None:
    if sampled != [(anchor["id"], anchor["shape"]) for anchor, _ in pairs]:
        raise AccountingError(
            f"{shard} holds other anchors than its slice of anchors.h5", "restore anchors.h5, or run anew"
        )


def _raise_together(corrupt: list[CorruptFile]) -> None:
    if len(corrupt) == 1:
        raise corrupt[0]
    if corrupt:
        names = "\n       ".join(problem.message for problem in corrupt[:10])
        raise CorruptFile(f"{len(corrupt)} results are damaged\n       {names}", corrupt[0].cure)


def _write_records(folder: Path, work: FinishedWork, survey: _Survey, published: bool) -> None:
    origin = Origin(work.run.manifest().digest, work.config.seed)
    with ExitStack() as stack:
        accepted = stack.enter_context(RecordFiles(folder, "accepted", survey.columns))
        rejected = stack.enter_context(RecordFiles(folder, "rejected", survey.columns))
        lost = stack.enter_context(JsonLines(folder / "lost.jsonl"))
        twin = stack.enter_context(JsonLines(folder / PUBLISHED)) if published else None
        number, shards = 0, survey.accounting.shards
        for row, anchor, item in work.items():
            tally = survey.accounting.tally(anchor.shape)
            pair = parsed_pair(item)
            status, reason = item["status"], item["reason"]
            if pair and survey.limits.outliers(pair):
                status, reason = "rejected", LENGTH
            tally.parsed += pair is not None
            tally.add(status, reason)
            if pair and status == "accepted":
                accepted.add(build_record(anchor, item, origin))
                if twin is not None:
                    twin.add(published_record(number, row, anchor, item))
                number += 1
            elif pair and status == "rejected":
                rejected.add(build_record(anchor, item, origin, rejected=reason))
            elif status == "accepted":
                raise AccountingError(f"{anchor.id} is accepted and has no question", "please report it")
            else:
                lost.add(lost_record(anchor, item))
            if (row + 1) % work.manifest.shard_size == 0:
                survey.progress(shards + (row + 1) // work.manifest.shard_size, 2 * shards, "merge")


def _write_documents(folder: Path, run: RunFolder, accounting: Accounting, published: str | None) -> None:
    facts = gather_facts(run, __version__)
    (folder / "accounting.json").write_bytes(pretty(accounting.to_dict()))
    (folder / "graphlets.csv").write_text(shape_table(accounting, shape_totals(run)), encoding="utf-8")
    (folder / "croissant.json").write_bytes(pretty(croissant(folder, facts)))
    (folder / "README.md").write_text(render_card(facts, accounting, published), encoding="utf-8")
    write_sums(folder)

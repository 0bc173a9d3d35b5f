"""From results to RUN/dataset: two streams over all shards, memory for a row group, counts that add up.

The first stream (survey.py) gathers what needs all items, the second one writes. The folder changes as a
whole (swap.py), and its bytes follow from the results alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kgqa_hpc import __version__
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.dataset.accounting import LENGTH, Accounting
from kgqa_hpc.dataset.card import render_card
from kgqa_hpc.dataset.croissant import croissant
from kgqa_hpc.dataset.export import FILE as PUBLISHED
from kgqa_hpc.dataset.export import published_record
from kgqa_hpc.dataset.facts import gather_facts, shape_totals
from kgqa_hpc.dataset.files import JsonLines, RecordFiles, write_sums
from kgqa_hpc.dataset.first_pass import Survey, survey
from kgqa_hpc.dataset.lengths import parsed_pair
from kgqa_hpc.dataset.read import FinishedWork, open_work
from kgqa_hpc.dataset.record import Origin, build_record, lost_record
from kgqa_hpc.dataset.shape_table import shape_table
from kgqa_hpc.errors import AccountingError
from kgqa_hpc.store.canonical import pretty
from kgqa_hpc.store.replace_folder import replaced_folder
from kgqa_hpc.store.run_folder import RunFolder

Progress = Callable[[int, int, str], None]


def merge(
    run: RunFolder, *, partial: bool = False, published: bool = False, progress: Progress | None = None
) -> Accounting:
    """Write RUN/dataset and return its accounting.

    `partial` merges an unfinished run, `published` adds biographletqa.jsonl, `progress(done, total, label)`
    is told of every shard, twice. Raises AccountingError when work is left or counts do not add up,
    CorruptFile when a result is damaged (it is then in quarantine), DiskFull; RUN/dataset is what it was
    after each.
    """
    work = open_work(run)
    _require_finished(work, partial)
    shard_done = _counter(2 * len(work.manifest.shards) - len(work.missing), progress)
    found = survey(work, shard_done)
    with replaced_folder(run.dataset) as folder:
        _write_records(folder, work, found, published, shard_done)
        found.accounting.check()
        _write_documents(folder, run, found.accounting, PUBLISHED if published else None)
    return found.accounting


def _require_finished(work: FinishedWork, partial: bool) -> None:
    missing, total = len(work.missing), len(work.manifest.shards)
    if missing and not partial:
        raise AccountingError(
            f"{missing:,} of {total:,} shards are not done, no dataset was written",
            f"run `kgqa run {work.run.path}` again, or merge what is there with --partial",
        )


def _counter(total: int, progress: Progress | None) -> Callable[[], None]:
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total, "merge")

    return count


def _write_records(
    folder: Path, work: FinishedWork, found: Survey, published: bool, shard_done: Callable[[], None]
) -> None:
    with ExitStack() as stack:
        out = _Writer(folder, work, found, published, stack)
        for start, pairs in work.finished():
            for row, (anchor, item) in enumerate(pairs, start):
                out.add(row, Anchor.from_dict(anchor), item)
            shard_done()


class _Writer:
    """Puts each item into the file of its outcome, and counts it."""

    def __init__(
        self, folder: Path, work: FinishedWork, found: Survey, published: bool, stack: ExitStack
    ) -> None:
        self._found = found
        self._origin = Origin(work.run.manifest().digest, work.config.seed)
        self._accepted = stack.enter_context(RecordFiles(folder, "accepted", found.columns))
        self._rejected = stack.enter_context(RecordFiles(folder, "rejected", found.columns))
        self._lost = stack.enter_context(JsonLines(folder / "lost.jsonl"))
        self._published = stack.enter_context(JsonLines(folder / PUBLISHED)) if published else None
        self._accepted_so_far = 0

    def add(self, row: int, anchor: Anchor, item: dict[str, Any]) -> None:
        pair = parsed_pair(item)
        status, reason = item["status"], item["reason"]
        # Before any judge is heard, as in the paper (3.2.2), where outliers never reached one.
        if pair and self._found.limits.outliers(pair):
            status, reason = "rejected", LENGTH
        tally = self._found.accounting.tally(anchor.data["shape"])
        tally.parsed += pair is not None
        tally.add(status, reason)
        if pair and status == "accepted":
            self._accept(row, anchor, item)
        elif pair and status == "rejected":
            self._rejected.add(build_record(anchor, item, self._origin, rejected=reason))
        elif status == "accepted":
            raise AccountingError(f"{anchor.id} is accepted and has no question", "please report it")
        else:
            self._lost.add(lost_record(anchor, item))

    def _accept(self, row: int, anchor: Anchor, item: dict[str, Any]) -> None:
        self._accepted.add(build_record(anchor, item, self._origin))
        if self._published is not None:
            self._published.add(published_record(self._accepted_so_far, row, anchor, item))
        self._accepted_so_far += 1


def _write_documents(folder: Path, run: RunFolder, accounting: Accounting, published: str | None) -> None:
    facts = gather_facts(run, __version__)
    (folder / "accounting.json").write_bytes(pretty(accounting.to_dict()))
    (folder / "graphlets.csv").write_text(shape_table(accounting, shape_totals(run)), encoding="utf-8")
    (folder / "croissant.json").write_bytes(pretty(croissant(folder, facts)))
    (folder / "README.md").write_text(render_card(facts, accounting, published), encoding="utf-8")
    write_sums(folder)

"""The first look at all results: what can only be known when every item was seen.

Rows with their outcome so far, the columns of the dataset, counts of requests, and what was sampled, from
anchors.h5 beside the shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.record import record_maker
from kgqa_hpc.dataset.requests import RequestCounts
from kgqa_hpc.dataset.rows import Rows, RowsBuilder
from kgqa_hpc.dataset.spool import ACCEPTED, REJECTED, Spool, sampled_digest
from kgqa_hpc.dataset.workers import Crew
from kgqa_hpc.errors import AccountingError


@dataclass(frozen=True, slots=True)
class FirstPass:
    """`accounting` has everything but the outcomes of rows, which filters may still change.

    `layouts` are the layouts of the spools' own columns: a spool with another one than `columns` has now is
    brought into form when it is written out, and so are the lines that do not fit the layout of their spool; `fits`
    has for each spool the numbers of the statuses whose lines all do. `folder` has the spools and sketches.
    """

    columns: Columns
    layouts: list[bytes]
    fits: list[list[int]]
    rows: Rows
    accounting: Accounting
    folder: Path


def first_pass(work: FinishedWork, scratch: Path, shard_done: Callable[[], None], crew: Crew) -> FirstPass:
    """Look at all shards once; `scratch` may take the spools that `crew` makes.

    Raises AccountingError when shards are not the anchors; CorruptFile that names all damaged results, after
    each was moved to quarantine.
    """
    folder = crew.spools(work, scratch, shard_done)
    accounting = Accounting(shards=len(work.manifest.shards), missing_shards=len(work.missing))
    columns, requests = Columns(record_maker(work.config, "").columns), RequestCounts()
    builder = RowsBuilder()
    layouts: list[bytes] = []
    fits: list[list[int]] = []
    different: dict[bytes, bytes] = {}  # nearly all shards have the same
    for entry, ids, groups in work.sampled():
        for name, number in Counter(groups).items():
            accounting.group(name).sampled += number
        path = folder / f"{entry.name}.spool"
        spool = Spool(path)
        if spool.head.sampled != sampled_digest(ids, groups):
            raise AccountingError(
                f"{entry.name} holds other anchors than its slice of anchors.h5",
                "restore anchors.h5, or run anew",
            )
        for name in spool.head.waiting:
            accounting.group(name).waiting += 1
        for name, status, reason in spool.head.lists:
            accounting.group(name).add(status, reason)
        requests.take(spool.head.requests)
        columns.take(spool.head.columns)
        own = Columns()
        own.take(spool.head.columns)
        layout = own.layout()
        layouts.append(different.setdefault(layout, layout))
        unfit = spool["status"][(spool["fits"] == 0) & (spool["line"] > 0)]
        fits.append([status for status in (ACCEPTED, REJECTED) if status not in unfit])
        builder.add(path, spool)
    accounting.requests = requests.rows()
    accounting.json_text = columns.json_text()
    return FirstPass(columns, layouts, fits, builder.rows(), accounting, folder)

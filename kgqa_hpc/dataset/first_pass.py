"""The first stream over all results: what can only be known when every item was seen.

Length limits, the columns of the dataset, counts of requests, and what was sampled, from anchors.h5 beside
the shards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.lengths import LengthLimits, PairLengths, parsed_pair
from kgqa_hpc.dataset.read import FinishedWork, Pair
from kgqa_hpc.dataset.record import parameters
from kgqa_hpc.dataset.requests import RequestTally
from kgqa_hpc.errors import AccountingError, CorruptFile
from kgqa_hpc.store.shard import ShardEntry


@dataclass(frozen=True, slots=True)
class Survey:
    """`accounting` has everything but the outcomes, which the second stream counts."""

    columns: Columns
    limits: LengthLimits
    accounting: Accounting


def survey(work: FinishedWork, shard_done: Callable[[], None]) -> Survey:
    """Stream over all shards once.

    Raises AccountingError when shards are not the anchors; CorruptFile that names all damaged results, after
    each was moved to quarantine.
    """
    accounting = Accounting(shards=len(work.manifest.shards), missing_shards=len(work.missing))
    columns, lengths, requests = Columns(), PairLengths(), RequestTally()
    corrupt: list[CorruptFile] = []
    for entry, sampled in work.sampled():
        for _, shape in sampled:
            accounting.tally(shape).sampled += 1
            accounting.tally(shape).waiting += entry.name not in work.done
        for _, item in _pairs(work, entry, sampled, corrupt):
            requests.add(item)
            if pair := parsed_pair(item):
                lengths.add(pair)
                columns.add(item["verdicts"], parameters(item["trace"]))
        shard_done()
    _raise_together(corrupt)
    limits = lengths.limits(work.config.dataset.z_score)
    accounting.lengths = limits.to_dict()
    accounting.requests = requests.rows()
    return Survey(columns, limits, accounting)


def _pairs(
    work: FinishedWork, entry: ShardEntry, sampled: list[tuple[str, int]], corrupt: list[CorruptFile]
) -> list[Pair]:
    """A finished shard's items; none of a missing or damaged one, which is noted in `corrupt`."""
    if entry.name not in work.done:
        return []
    try:
        pairs = work.pairs(entry)
    except CorruptFile as problem:
        corrupt.append(problem)
        return []
    if sampled != [(anchor["id"], anchor["shape"]) for anchor, _ in pairs]:
        raise AccountingError(
            f"{entry.name} holds other anchors than its slice of anchors.h5",
            "restore anchors.h5, or run anew",
        )
    return pairs


def _raise_together(corrupt: list[CorruptFile]) -> None:
    if len(corrupt) == 1:
        raise corrupt[0]
    if corrupt:
        names = "\n       ".join(problem.message for problem in corrupt[:10])
        raise CorruptFile(f"{len(corrupt)} results are damaged\n       {names}", corrupt[0].cure)

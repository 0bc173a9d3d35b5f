"""Draws of records that depend on the seed and the ids of the records alone, not on their order.

A balanced sample (`dataset.debias`) is a smaller dataset in which rare values are as frequent as possible (QAProt,
Algorithm 1). The weight of a record is the product, over the chosen columns, of 1 / (number of records with its value).
Records are drawn by weight without replacement, by exponential keys (Efraimidis and Spirakis, 2006).

A mixture (`kgqa combine --share`) takes records of several runs in given proportions. Numbers follow the
largest-remainder method (Hamilton): every run gets the integer part of its quota, and the remaining records go to the
largest remainders, the earlier run first on a tie.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite, log

import numpy as np
import orjson

from kgqa_hpc.config.sections import Debias
from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.dataset.columns import value_at
from kgqa_hpc.errors import InputError

SHOWN = 20  # values per column in the accounting
Table = dict[str, dict[str, int]]


def left_out(candidates: Candidates, settings: Debias, seed: int) -> tuple[np.ndarray, Table, Table]:
    """Row numbers of the accepted records that were not drawn, and the most frequent values before and after.

    Raises InputError when records have no such column.
    """
    accepted = candidates.accepted
    values: list[list[str]] = [[] for _ in settings.columns]
    ids: list[str] = []
    for _, record in candidates.staged.records(accepted):
        ids.append(record["id"])
        for column, column_values in zip(settings.columns, values, strict=True):
            value = value_at(record, column, "dataset.debias.columns")
            column_values.append(value if isinstance(value, str) else orjson.dumps(value).decode())
    counts = [Counter(column) for column in values]
    keys = [
        -log((draw_key(seed, "debias", record_id) + 0.5) / 2**64)
        * float(np.prod([c[v] for c, v in zip(counts, row, strict=True)]))
        for record_id, *row in zip(ids, *values, strict=True)
    ]
    order = np.argsort(np.array(keys), kind="stable")
    drawn = np.sort(order[: settings.number])
    after = [Counter(column[i] for i in drawn.tolist()) for column in values]
    names = settings.columns
    return (
        accepted[np.sort(order[settings.number :])],
        _table(names, counts, counts),
        _table(names, after, counts),
    )


def _table(names: list[str], counts: list[Counter[str]], order: list[Counter[str]]) -> Table:
    return {
        name: {
            value: count[value]
            for value, _ in sorted(by.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN]
        }
        for name, count, by in zip(names, counts, order, strict=True)
    }


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


def apportion(number: int, shares: Sequence[float]) -> list[int]:
    """`number` divided into integers in the ratio of `shares`, which need not sum to one."""
    exact = [Fraction(str(share)) for share in shares]
    quotas = [number * share / sum(exact) for share in exact]
    counts = [floor(quota) for quota in quotas]
    by_rest = sorted(range(len(shares)), key=lambda i: (counts[i] - quotas[i], i))
    for i in by_rest[: number - sum(counts)]:
        counts[i] += 1
    return counts


def largest(available: Sequence[int], shares: Sequence[float]) -> int:
    """The largest total at which no run has to give more records than are `available`."""
    exact = [Fraction(str(share)) for share in shares]
    return min(floor(have * sum(exact) / share) for have, share in zip(available, exact, strict=True))


def counts_of(available: Sequence[int], shares: Sequence[float], number: int | None) -> list[int]:
    """The number of records of each run, `number` in all (default: the largest possible).

    Raises InputError for too many.
    """
    most = largest(available, shares)
    counts = apportion(most if number is None else number, shares)
    for at, (count, have) in enumerate(zip(counts, available, strict=True), start=1):
        if count > have:
            raise InputError(
                f"run {at} has {have:,} accepted records that fit, its share of {number:,} is {count:,}",
                f"ask for at most {most:,}, or change the shares",
            )
    return counts


def drawn(keys: Sequence[int], count: int) -> np.ndarray:
    """Mask of the `count` records with the smallest keys: bool, shape (n,)."""
    chosen = np.zeros(len(keys), bool)
    chosen[np.argsort(np.array(keys, np.uint64), kind="stable")[:count]] = True
    return chosen


def draw_key(seed: int, purpose: str, record: str) -> int:
    """Random key of a record in a draw: 64 bits of a hash of the seed and its id."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{record}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")

"""Draws of records that depend on the seed and the ids of the records alone, not on their order.

A balanced sample (`dataset.debias`) is a smaller dataset in which rare values are as frequent as possible (QAProt,
Algorithm 1). The weight of a record is the product, over the chosen columns, of 1 / (number of records with its value).
Records are drawn by weight without replacement, by exponential keys (Efraimidis and Spirakis, 2006).

A mixture (`kgqa combine --share`) takes records of several runs in given proportions. Numbers follow the
largest-remainder method (Hamilton): every run gets the integer part of its quota, and the remaining records go to the
largest remainders, the earlier run first on a tie.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite, log

import numpy as np
import orjson
import pandas as pd

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
    accepted, names = candidates.accepted, settings.columns
    keys, values = [], []
    for _, record in candidates.staged.records(accepted):
        keys.append(-log((draw_key(seed, "debias", record["id"]) + 0.5) / 2**64))
        row = [value_at(record, column, "dataset.debias.columns") for column in names]
        values.append([value if isinstance(value, str) else orjson.dumps(value).decode() for value in row])
    table = pd.DataFrame(values, columns=range(len(names)), dtype=object)
    counts = [table[number].value_counts() for number in range(len(names))]
    frequent = np.prod([table[number].map(count) for number, count in enumerate(counts)], axis=0)
    order = np.argsort(np.array(keys) * frequent.astype(float), kind="stable")
    drawn = table.iloc[np.sort(order[: settings.number])]
    before, after = Table(), Table()
    for number, name in enumerate(names):
        kept, ranked = (
            drawn[number].value_counts(),
            sorted(counts[number].items(), key=lambda n: (-n[1], n[0])),
        )
        before[name] = {str(value): int(count) for value, count in ranked[:SHOWN]}
        after[name] = {value: int(kept.get(value, 0)) for value in before[name]}
    return accepted[np.sort(order[settings.number :])], before, after


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

"""Mixtures of runs in given proportions: the number of records of each run, and their draw.

Numbers follow the largest-remainder method (Hamilton): every run gets the integer part of its quota, and the remaining
records go to the largest remainders, the earlier run first on a tie. The draw depends on the seed and the ids of the
records alone; their order does not change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isfinite

import numpy as np

from kgqa_hpc.errors import InputError


@dataclass(frozen=True, slots=True)
class Mixture:
    """Proportions of the runs' accepted records: one share a run, `number` in all or as many as there can be."""

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


def place(seed: int, record: str) -> int:
    """Random key of a record in the draw: 64 bits of a hash of the seed and its id."""
    digest = hashlib.blake2b(f"{seed}/mixture/{record}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def drawn(keys: Sequence[int], count: int) -> np.ndarray:
    """Mask of the `count` records with the smallest keys: bool, shape (n,)."""
    chosen = np.zeros(len(keys), bool)
    chosen[np.argsort(np.array(keys, np.uint64), kind="stable")[:count]] = True
    return chosen

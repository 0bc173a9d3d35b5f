"""The filters of merge, applied after staging in this order.

length        pairs far longer or shorter than the others, whatever the judges said
duplicate     accepted questions that repeat an earlier accepted question (duplicates.py)
contaminated  accepted records that contain a test item (contamination.py)
not drawn     records that a balanced sample (`dataset.debias`) leaves out
beyond target accepted records beyond the first that the target asks for; a growing run counts without this filter

A filter only marks rows: rejected records are written to rejected.jsonl with their reason, and a merge
without the filter accepts them again. `accounting.filters` holds the settings of each filter and the number
of rows it rejected.
"""

from fractions import Fraction
from math import isqrt, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from kgqa_hpc.config.sections import DatasetConfig, Debias, Duplicates, Target
from kgqa_hpc.dataset.accounting import LENGTH, Accounting
from kgqa_hpc.dataset.candidates import Candidates, draw_key, repeated
from kgqa_hpc.dataset.columns import value_at
from kgqa_hpc.dataset.contamination import contaminated, read_test_sets
from kgqa_hpc.dataset.duplicates import near_duplicates

EXACT, NEAR = "duplicate", "near duplicate"
CONTAMINATED = "contaminated"
NOT_DRAWN = "not drawn"
BEYOND = "beyond target"
REASONS = (LENGTH, EXACT, NEAR, CONTAMINATED, NOT_DRAWN, BEYOND)
FIELDS = ("question", "answer")
SHOWN = 20  # largest number of values per column that the accounting lists for a balanced sample
Table = dict[str, dict[str, int]]


def apply_filters(
    candidates: Candidates, settings: DatasetConfig, seed: int, scratch: Path, accounting: Accounting
) -> None:
    """Apply all filters and record their settings and counts in the accounting.

    `scratch` is a folder for temporary files. Raises InputError for a test set that cannot be read or a column that no
    record has.
    """
    accounting.lengths = _reject_lengths(candidates, settings.z_score)
    if settings.duplicates is not None:
        accounting.filters["duplicates"] = _duplicates(candidates, settings.duplicates, scratch)
    if settings.decontaminate:
        accounting.filters["decontaminate"] = _contaminated(candidates, settings)
    if settings.debias is not None:
        out, before, after = left_out(candidates, settings.debias, seed)
        drawn = {NOT_DRAWN: candidates.reject(out, NOT_DRAWN), "before": before, "after": after}
        accounting.filters["debias"] = {"settings": settings.debias.model_dump(), **drawn}


def _duplicates(candidates: Candidates, duplicates: Duplicates, scratch: Path) -> dict[str, Any]:
    counts: dict[str, Any] = {"settings": duplicates.model_dump()}
    if not duplicates.exact and duplicates.near is None:
        return counts
    reason = EXACT if duplicates.exact else NEAR
    # Equal questions are rejected first, because the search for near duplicates takes longer.
    counts[reason] = candidates.reject_where(repeated("status = 'accepted'"), reason)
    if duplicates.near is not None:
        similar = near_duplicates(candidates.staged, candidates.accepted, duplicates.near, scratch)
        near = candidates.reject(similar, NEAR)
        counts[NEAR] = counts.get(NEAR, 0) + near
    return counts


def _contaminated(candidates: Candidates, settings: DatasetConfig) -> dict[str, Any]:
    tests = read_test_sets(settings.decontaminate)
    hits = contaminated(candidates, tests, settings.window)
    return {
        "window": settings.window,
        "test_sets": [
            {
                "file": test.name,
                "question": test.question,
                "answer": test.answer,
                "items": len(test.texts),
                "left_aside": test.left_aside(settings.window),
            }
            for test in tests
        ],
        CONTAMINATED: candidates.reject(hits, CONTAMINATED),
    }


def _reject_lengths(candidates: Candidates, z_score: float | None) -> dict[str, Any]:
    """Reject pairs with a text that is too long or too short; returns the entry of accounting.json.

    The limits follow from the lengths of all pairs, accepted or not; DuckDB adds integers in 128 bits.
    """
    fields, outside = {}, ["false"]
    for field in FIELDS:
        length = f"{field}_length"
        query = f"SELECT count({length}), sum({length}), sum({length}::HUGEINT * {length}) FROM candidate"
        pairs, total, squares = (int(sum or 0) for sum in candidates.database.execute(query).fetchall()[0])
        fields[field] = limits = length_limits(pairs, total, squares, z_score)
        if limits["minimum"] is not None:
            outside.append(f"{length} NOT BETWEEN {limits['minimum']} AND {limits['maximum']}")
    candidates.reject_where(" OR ".join(outside), LENGTH)
    units = {"unit": "characters", "standard_deviation": "population"}
    return {"z_score": z_score, **units, "pairs": pairs, **fields}


def cut(candidates: Candidates, target: Target) -> dict[str, Any]:
    """Reject accepted records beyond the target; returns the cut's entry of the accounting.

    The dataset keeps the first records in its order, which is a seeded shuffle.
    """
    within = "PARTITION BY grp" if target.per == "group" else ""
    beyond = f"""row IN (
      SELECT row FROM candidate WHERE status = 'accepted'
      QUALIFY row_number() OVER ({within} ORDER BY row) > {target.accepted}
    )"""
    return {"settings": target.model_dump(), BEYOND: candidates.reject_where(beyond, BEYOND)}


def left_out(candidates: Candidates, settings: Debias, seed: int) -> tuple[np.ndarray, Table, Table]:
    """Row numbers of the accepted records that were not drawn, and the most frequent values before and after.

    A balanced sample is a smaller dataset in which rare values are as frequent as possible (QAProt, Algorithm 1). The
    weight of a record is the product, over the chosen columns, of 1 / (number of records with its value). Records are
    drawn by weight without replacement, by exponential keys (Efraimidis and Spirakis, 2006), which depend on the seed
    and the id alone. Raises InputError when records have no such column.
    """
    import pandas as pd

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
        ranked = sorted(counts[number].items(), key=lambda n: (-n[1], n[0]))
        remaining = drawn[number].value_counts()
        before[name] = {str(value): int(count) for value, count in ranked[:SHOWN]}
        after[name] = {value: int(remaining.get(value, 0)) for value in before[name]}
    return accepted[np.sort(order[settings.number :])], before, after


def length_limits(count: int, total: int, squares: int, z_score: float | None) -> dict[str, Any]:
    """Mean, population standard deviation, smallest and largest accepted length, from `count` lengths, their sum and
    their sum of squares. No limits (None) without a `z_score` or without any length.

    BioGraphletQA, section 3.2.2: a pair is an outlier when the length of its question or of its answer lies more than
    three standard deviations from the mean over all parsed pairs. The limits are exactly the integers x with
    |x - mean| <= z * deviation, in exact integer arithmetic, so the outcome depends on no order, no machine and no
    rounding. The deviation is that of the population: the pairs are the whole dataset, not a sample of it.
    """
    if not count:
        return {"mean": 0.0, "deviation": 0.0, "minimum": None, "maximum": None}
    spread = count * squares - total * total  # count^2 times the variance, an integer that is never negative
    low = high = None
    if z_score is not None:
        # |x - total/count| <= (p/q) sqrt(spread)/count  <=>  |q (count x - total)| <= floor(sqrt(p^2 spread))
        p, q = Fraction(z_score).as_integer_ratio()
        reach = isqrt(p * p * spread)
        low = max(-((reach - q * total) // (q * count)), 0)  # ceiling of (q total - reach) / (q count)
        high = (q * total + reach) // (q * count)
    return {
        "mean": total / count,
        "deviation": sqrt(Fraction(spread, count**2)),
        "minimum": low,
        "maximum": high,
    }

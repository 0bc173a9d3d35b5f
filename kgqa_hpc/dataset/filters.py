"""What is done to the rows between the two passes, in this order; each step is counted and can be undone.

length        pairs far longer or shorter than the others (lengths.py), before any judge is heard
duplicate     accepted questions that an earlier one has already (duplicates.py)
contaminated  accepted records that contain a test item (contamination.py)
not drawn     what a debiased sample leaves out (debias.py)

A step only marks rows: what it rejects stands in rejected.jsonl under its reason, and a merge without it brings it
back. `accounting.filters` holds the settings of each and what it left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.config.dataset import DatasetConfig
from kgqa_hpc.dataset.accounting import LENGTH, Accounting
from kgqa_hpc.dataset.lengths import LengthLimits, LengthSum, limits_of
from kgqa_hpc.dataset.rows import Rows
from kgqa_hpc.dataset.workers import Crew

EXACT, NEAR = "duplicate", "near duplicate"
CONTAMINATED = "contaminated"
NOT_DRAWN = "not drawn"


def apply_filters(
    rows: Rows, settings: DatasetConfig, seed: int, folder: Path, accounting: Accounting, crew: Crew
) -> None:
    """Mark what each filter leaves out, and say so in the accounting.

    `folder` has the spools and sketches, and takes what `crew` is to do. Raises InputError for a test set that
    cannot be read or a column no record has.
    """
    limits = length_limits(rows, settings.z_score)
    accounting.lengths = limits.to_dict()
    rows.reject(_outliers(rows, limits), LENGTH)
    if settings.duplicates is not None:
        accounting.filters["duplicates"] = _duplicates(rows, settings, folder, crew)
    if settings.decontaminate:
        accounting.filters["decontaminate"] = _contaminated(rows, settings)
    if settings.debias is not None:
        accounting.filters["debias"] = _debiased(rows, settings, seed)


def length_limits(rows: Rows, z_score: float | None) -> LengthLimits:
    """The limits over all pairs, whatever a judge said of them."""
    has = rows.question >= 0
    sums = {name: LengthSum.of(lengths[has]) for name, lengths in _lengths(rows).items()}
    return limits_of(sums, z_score)


def _lengths(rows: Rows) -> dict[str, np.ndarray]:
    return {"question": rows.question, "answer": rows.answer}


def _outliers(rows: Rows, limits: LengthLimits) -> np.ndarray:
    outside = np.zeros(len(rows), bool)
    for name, lengths in _lengths(rows).items():
        bound = limits.bounds[name]
        if bound is not None:
            outside |= (lengths < bound[0]) | (lengths > bound[1])
    return outside & (rows.question >= 0)


def _duplicates(rows: Rows, settings: DatasetConfig, folder: Path, crew: Crew) -> dict[str, Any]:
    from kgqa_hpc.dataset.duplicates import exact_duplicates, near_duplicates
    from kgqa_hpc.dataset.near_search import NearSearch
    from kgqa_hpc.dataset.sketches import Sketch, sketch_of

    wish = settings.duplicates
    assert wish is not None
    found: dict[str, Any] = {"settings": wish.model_dump()}
    if not wish.exact and wish.near is None:
        return found
    for path in rows.spools:
        Sketch(sketch_of(path)).require_whole()
    same, reason = exact_duplicates(rows), EXACT if wish.exact else NEAR
    rows.reject(same, reason)  # first, so the search is spared them
    found[reason] = len(same)
    if wish.near is not None:
        near = near_duplicates(rows, NearSearch.plan(folder, rows, wish.near), crew.share)
        rows.reject(near, NEAR)
        found[NEAR] = found.get(NEAR, 0) + len(near)
    return found


def _contaminated(rows: Rows, settings: DatasetConfig) -> dict[str, Any]:
    from kgqa_hpc.dataset.contamination import contaminated, read_test_sets

    tests = read_test_sets(settings.decontaminate)
    hits = contaminated(rows, tests, settings.window)
    rows.reject(hits, CONTAMINATED)
    return {
        "window": settings.window,
        "test_sets": [
            {
                "file": one.name,
                "question": one.question,
                "answer": one.answer,
                "items": len(one.texts),
                "left_aside": one.left_aside(settings.window),
            }
            for one in tests
        ],
        CONTAMINATED: len(hits),
    }


def _debiased(rows: Rows, settings: DatasetConfig, seed: int) -> dict[str, Any]:
    from kgqa_hpc.dataset.debias import left_out

    assert settings.debias is not None
    out, before, after = left_out(rows, settings.debias, seed)
    rows.reject(out, NOT_DRAWN)
    return {"settings": settings.debias.model_dump(), NOT_DRAWN: len(out), "before": before, "after": after}

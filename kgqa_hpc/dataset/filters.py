"""The filters of merge, applied after staging in this order.

length        pairs far longer or shorter than the others, whatever the judges said (lengths.py)
duplicate     accepted questions that repeat an earlier accepted question (duplicates.py)
contaminated  accepted records that contain a test item (contamination.py)
not drawn     records that a balanced sample leaves out (sampling.py)

A filter only marks rows: rejected records stand in rejected.jsonl with their reason, and a merge without the filter
brings them back. `accounting.filters` holds the settings of each filter and the number of rows it rejected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.config.dataset import DatasetConfig, Duplicates
from kgqa_hpc.dataset.accounting import LENGTH, Accounting
from kgqa_hpc.dataset.candidates import Candidates
from kgqa_hpc.dataset.lengths import length_limits

EXACT, NEAR = "duplicate", "near duplicate"
CONTAMINATED = "contaminated"
NOT_DRAWN = "not drawn"


def apply_filters(
    candidates: Candidates, settings: DatasetConfig, seed: int, scratch: Path, accounting: Accounting
) -> None:
    """Apply all filters and record their settings and counts in the accounting.

    `scratch` is a folder for temporary files. Raises InputError for a test set that cannot be read or a column that no
    record has.
    """
    limits = length_limits(candidates, settings.z_score)
    accounting.lengths = limits.to_dict()
    candidates.reject_where(limits.outside(), LENGTH)
    if settings.duplicates is not None:
        accounting.filters["duplicates"] = _duplicates(candidates, settings.duplicates, scratch)
    if settings.decontaminate:
        accounting.filters["decontaminate"] = _contaminated(candidates, settings)
    if settings.debias is not None:
        from kgqa_hpc.dataset.sampling import left_out

        out, before, after = left_out(candidates, settings.debias, seed)
        drawn = {NOT_DRAWN: candidates.reject(out, NOT_DRAWN), "before": before, "after": after}
        accounting.filters["debias"] = {"settings": settings.debias.model_dump(), **drawn}


def _duplicates(candidates: Candidates, duplicates: Duplicates, scratch: Path) -> dict[str, Any]:
    from kgqa_hpc.dataset.duplicates import REPEATED, near_duplicates

    counts: dict[str, Any] = {"settings": duplicates.model_dump()}
    if not duplicates.exact and duplicates.near is None:
        return counts
    reason = EXACT if duplicates.exact else NEAR
    # Runs before the search for near duplicates, which takes longer.
    counts[reason] = candidates.reject_where(REPEATED, reason)
    if duplicates.near is not None:
        near = candidates.reject(near_duplicates(candidates, duplicates.near, scratch), NEAR)
        counts[NEAR] = counts.get(NEAR, 0) + near
    return counts


def _contaminated(candidates: Candidates, settings: DatasetConfig) -> dict[str, Any]:
    from kgqa_hpc.dataset.contamination import contaminated, read_test_sets

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

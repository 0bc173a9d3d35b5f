"""Whole runs give the records, counts, answers and pages that were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.registry import shipped_plugins
from tests.golden.cases import CASES
from tests.golden.record import EVALUATION, observe, read


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Each place at which two documents differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in new or key not in old:
                yield f"{where}/{key} is {'missing' if key in old else 'new'}: {str(old.get(key, new.get(key)))[:200]}"
            else:
                yield from differences(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{where}/{number}")
    elif isinstance(old, float) and isinstance(new, float) and isclose(old, new, rel_tol=1e-9):
        return
    elif old != new:
        yield f"{where}: {str(old)[:300]!r} became {str(new)[:300]!r}"


@pytest.mark.parametrize("case", CASES)
def test_a_run_gives_what_it_gave(case: str, tmp_path: Path) -> None:
    if case == "puzzle":
        pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
    recorded = read(case)
    if "evaluation" not in shipped_plugins():
        recorded["commands"] = {
            name: answer for name, answer in recorded["commands"].items() if name not in EVALUATION
        }
    found = list(differences(recorded, observe(case, tmp_path)))
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:40])

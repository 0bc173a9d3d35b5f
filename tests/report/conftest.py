"""The same small runs as in tests/dataset."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_SPEC = importlib.util.spec_from_file_location(
    "kgqa_synthetic_runs", Path(__file__).parents[1] / "dataset" / "conftest.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
_RUNS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_RUNS)

make_run = _RUNS.make_run

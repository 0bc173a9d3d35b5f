"""A small merged run."""

from pathlib import Path

import pytest

from tests.plugins.evaluation.pairs import record
from tests.record_runs import jsonl


@pytest.fixture
def merged_run(tmp_path: Path) -> Path:
    """60 accepted and 40 rejected pairs of five shapes."""
    run = tmp_path / "run"
    jsonl(run / "dataset" / "accepted.jsonl", [record(i, accepted=True) for i in range(60)])
    jsonl(run / "dataset" / "rejected.jsonl", [record(i, accepted=False) for i in range(60, 100)])
    return run

"""A run of five shards that nobody has begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "oregano", 100)
    partition(made, 20)
    return made

"""Merge holds a shard and a row group in memory, however large the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHARD = 1000
MERGE = """
import resource, sys
from pathlib import Path
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.run_folder import RunFolder
merge(RunFolder(Path(sys.argv[1])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_of_merging(run: Path) -> int:
    """Peak resident memory of a merge in a process of its own, in bytes."""
    done = subprocess.run([sys.executable, "-c", MERGE, run], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.slow
def test_ten_times_the_records_take_no_more_memory(make_tiny_run: Any) -> None:
    small = peak_of_merging(make_tiny_run(4_000, SHARD, "small"))
    large = peak_of_merging(make_tiny_run(40_000, SHARD, "large"))
    # Held as objects, 36,000 more records would be about 120 MB.
    assert large - small < 40 << 20

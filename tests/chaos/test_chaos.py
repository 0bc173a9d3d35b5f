"""The same dataset to the byte, whatever happens to workers, engines, merges, disks and clocks at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_tormented_run_has_the_bytes_of_an_undisturbed_one(library: Path, tmp_path: Path) -> None:
    words = [
        "--minutes",
        "1.8",
        "--seed",
        "1",
        "--runs",
        "graphlet,study,target",
        "--keep",
        str(tmp_path / "chaos"),
    ]
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "chaos.py", *words], capture_output=True, text=True, timeout=1800
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all held" in done.stdout

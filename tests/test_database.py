"""Databases in memory write nothing but answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import duckdb
from kgqa_hpc.database import connect
for database in (duckdb.connect(), connect("100MB")):
    print(database.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0])
"""


def test_a_long_query_of_a_command_writes_no_progress_to_standard_output(tmp_path: Path) -> None:
    """By the setting: DuckDB turns its bar on for scripts, as `kgqa` is one, and shows it after two seconds."""
    script = tmp_path / "command.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, ROOT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]

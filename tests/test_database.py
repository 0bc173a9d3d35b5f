"""Databases in memory write nothing but answers."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import duckdb
from kgqa_hpc.database import connect
for database in (duckdb.connect(), connect("100MB")):
    print(database.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0])
"""


def test_a_long_query_of_a_session_writes_no_progress_to_standard_output() -> None:
    """By the setting: DuckDB turns its bar on where no script runs, and shows it after two seconds."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]

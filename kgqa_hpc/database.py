"""In-memory DuckDB connections with the settings that all commands share."""

from __future__ import annotations

from typing import Any

import duckdb

from kgqa_hpc.threads import usable_cores


def connect(memory: str, spill_folder: str = "", **settings: Any) -> duckdb.DuckDBPyConnection:
    """A database that holds `memory` ("300MB") and spills into a folder; into none by default.

    DuckDB's own default is the current folder. Its progress bar is off: in a session without a script it would go
    to standard output.
    """
    config = {"memory_limit": memory, "temp_directory": spill_folder, "threads": usable_cores(), **settings}
    database = duckdb.connect(config=config)
    database.execute("SET enable_progress_bar = false")
    return database

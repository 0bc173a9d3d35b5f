"""DuckDB in memory: connections with the settings that all commands share, and SQL queries over a dataset.

Queries see read-only views of the dataset and no other files, settings or extensions.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kgqa_hpc.errors import InputError
from kgqa_hpc.threads import usable_cores


def connect(memory: str, spill_folder: str = "", **settings: Any) -> duckdb.DuckDBPyConnection:
    """Open an in-memory database with the memory limit `memory` ("300MB"); by default it never spills to disk.

    DuckDB's own default is to spill into the current folder. The progress bar is off, because in an interactive
    session DuckDB prints it to standard output.
    """
    config = {"memory_limit": memory, "temp_directory": spill_folder, "threads": usable_cores(), **settings}
    database = duckdb.connect(config=config)
    database.execute("SET enable_progress_bar = false")
    return database


FILES = ("accepted", "rejected")
MEMORY = "500MB"
_LOST = pa.schema([(name, pa.string()) for name in ("id", "status", "reason", "kind", "group")])
_NODES = """CREATE VIEW nodes AS SELECT record, node.id AS id, node.name AS name, node.type AS type
            FROM (SELECT id AS record, unnest(nodes) AS node FROM accepted)"""
_NO_NODES = """CREATE VIEW nodes AS SELECT ''::VARCHAR AS record, ''::VARCHAR AS id, ''::VARCHAR AS name,
               ''::VARCHAR AS type WHERE false"""


@contextmanager
def _views(dataset: Path, text: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that sees `accepted`, `rejected`, `lost` and `nodes` of a dataset folder, and nothing else.

    `nodes` has a row per accepted record and node: record, id, name, type. An error of DuckDB becomes an InputError
    that names the `text` of the query.
    """
    import pyarrow.dataset as pads  # imported here, because it imports pandas, which no other step of a run needs

    parts = {name: sorted(dataset.glob(f"{name}-*.parquet")) for name in FILES}
    with connect(MEMORY) as database:
        for name, files in parts.items():
            database.register(name, pads.dataset([str(part) for part in files], format="parquet"))
        lost: Any = _LOST.empty_table()
        if (file := dataset / "lost.jsonl").exists() and file.stat().st_size:
            lost = pads.dataset(str(file), schema=_LOST, format=pads.JsonFileFormat())
        database.register("lost", lost)
        has_nodes = "nodes" in pads.dataset([str(part) for part in parts["accepted"]]).schema.names
        database.execute(_NODES if has_nodes else _NO_NODES)
        database.execute(
            "SET enable_external_access = false; SET python_enable_replacements = false; "
            "SET autoload_known_extensions = false; SET lock_configuration = true"
        )
        try:
            yield database
        except duckdb.Error as problem:
            message = " ".join(re.split(r"\n\nLINE |\n\tCandidate ", str(problem))[0].split())
            raise InputError(
                f"{text}: {message}", "the views: accepted, rejected, lost, nodes (DESCRIBE accepted)"
            ) from None


def query(dataset: Path, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of the columns and rows of a query, in types of JSON.

    Raises InputError unless it is one SELECT that DuckDB can answer, with a name for each column.
    """
    with _views(dataset, text) as database:
        statements = database.extract_statements(text)
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise InputError(
                f"not one SELECT statement: {text}", "ask one question at a time; nothing is changed"
            )
        answer = database.execute(statements[0])
        names = [column[0] for column in answer.description or ()]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"two columns are named {repeated[0]}", "name one of them: SELECT … AS other_name"
            )
        return names, [tuple(map(_plain, row)) for row in answer.fetchall()]


def _plain(value: Any) -> Any:
    """A value in JSON types: decimals as numbers, NaN and infinity as null, other types as text."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def matching_ids(dataset: Path, name: str, condition: str) -> set[str]:
    """Ids of the records of a view for which an SQL condition is true. Raises InputError for a wrong condition."""
    with _views(dataset, condition) as database:
        chosen = database.table(name).filter(duckdb.SQLExpression(condition)).project("id")
        return {record for (record,) in chosen.fetchall()}

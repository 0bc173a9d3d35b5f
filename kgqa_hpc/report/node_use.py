"""Nodes used by the accepted questions, and the graph they cover together: queries over the dataset's Parquet files."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from kgqa_hpc.database import connect

TOP_NODES = 10
SAMPLED = 300
MEMORY = "300MB"
# Table `used` has a row per node. Table `links` has a row per pair of linked nodes, the smaller number first.
# A loop links a node to itself.
_TABLES = """
CREATE TABLE named AS SELECT id, min(name) AS name, count(*) AS questions FROM node GROUP BY id;
CREATE TABLE used AS SELECT row_number() OVER (ORDER BY id) - 1 AS number, * FROM named;
CREATE TABLE links AS SELECT DISTINCT least(a.number, b.number) AS a, greatest(a.number, b.number) AS b
  FROM joined JOIN used AS a ON a.id = source JOIN used AS b ON b.id = target;
CREATE TABLE degrees AS SELECT number, count(*) AS degree
  FROM (SELECT a AS number FROM links WHERE a <> b UNION ALL SELECT b FROM links WHERE a <> b) GROUP BY number
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """Nodes drawn in proportion to their questions, without replacement; all where there are at most SAMPLED.

    `nodes`: id, name, questions; the most used first. `links` (m, 2): joined pairs among them, by place in `nodes`.
    """

    nodes: list[tuple[str, str, int]]
    links: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class NodeUse:
    """`questions` and `degrees` (n,): of each used node, accepted questions and neighbours in the covered graph.

    `links` counts its joined pairs of nodes; `top` are the most used nodes: id, name, questions.
    """

    questions: NDArray[np.int64]
    degrees: NDArray[np.int64]
    links: int
    top: list[tuple[str, str, int]]
    sample: Sample


def count_nodes(paths: list[Path], seed: int) -> NodeUse:
    """Count the nodes of the accepted records in these Parquet files; `seed` is that of the sample.

    Records without nodes are ignored.
    """
    with TemporaryDirectory() as spilled, connect(MEMORY, spilled) as database:
        _read(database, paths)
        database.execute(_TABLES)
        query = "SELECT questions, coalesce(degree, 0) AS degree FROM used LEFT JOIN degrees USING (number)"
        counts = _arrays(database, query)
        top = f"SELECT id, name, questions FROM used ORDER BY questions DESC, id LIMIT {TOP_NODES}"
        return NodeUse(
            counts["questions"],
            counts["degree"],
            database.execute("SELECT count(*) FROM links").fetchall()[0][0],
            database.execute(top).fetchall(),
            _sample(database, seed),
        )


def _read(database: duckdb.DuckDBPyConnection, paths: list[Path]) -> None:
    """Fill the tables `node`, a row per record and node, and `joined`, a row per record and edge."""
    database.execute("CREATE TABLE node (id VARCHAR, name VARCHAR)")
    database.execute("CREATE TABLE joined (source VARCHAR, target VARCHAR)")
    for path in paths:
        records = database.read_parquet(str(path))
        if "nodes" in records.columns:
            database.execute(
                "INSERT INTO node SELECT n.id, n.name FROM (SELECT unnest(nodes) AS n FROM records)"
            )
        if {"nodes", "edges"} <= set(records.columns):
            database.execute(
                "INSERT INTO joined SELECT nodes[edge[1] + 1].id, nodes[edge[2] + 1].id "
                "FROM (SELECT nodes, unnest(edges) AS edge FROM records)"
            )


def _arrays(database: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    columns = database.execute(query).fetchnumpy()
    return {name: np.asarray(column, np.int64) for name, column in columns.items()}


def _sample(database: duckdb.DuckDBPyConnection, seed: int) -> Sample:
    questions = _arrays(database, "SELECT questions FROM used ORDER BY number")["questions"]
    size = min(SAMPLED, len(questions))
    if not size:
        return Sample([], np.empty((0, 2), np.int64))
    shares = questions / questions.sum()
    drawn = np.random.default_rng(seed).choice(len(questions), size, replace=False, p=shares)
    database.register("drawn", {"number": drawn})
    database.execute(
        """CREATE TABLE shown AS SELECT row_number() OVER (ORDER BY questions DESC, id) - 1 AS place, used.*
           FROM used JOIN drawn USING (number)"""
    )
    nodes = database.execute("SELECT id, name, questions FROM shown ORDER BY place").fetchall()
    links = _arrays(
        database,
        """SELECT x.place AS a, y.place AS b FROM links JOIN shown AS x ON x.number = a JOIN shown AS y ON y.number = b
           WHERE a <> b ORDER BY ALL""",
    )
    return Sample(nodes, np.stack([links["a"], links["b"]], axis=1))

"""Use of nodes is counted exactly, in bounded memory, whatever stands in a record."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa_hpc.report import node_use
from kgqa_hpc.report.node_use import count_nodes

NODES = pa.list_(pa.struct([(name, pa.string()) for name in ("id", "name", "type")]))
EDGES = pa.list_(pa.list_(pa.int64()))


def parts(folder: Path, records: list[tuple[Any, Any]]) -> list[Path]:
    """The records in two Parquet files."""
    paths = []
    for number, half in enumerate((records[::2], records[1::2])):
        nodes, edges = ([one[place] for one in half] for place in (0, 1))
        paths.append(folder / f"{number}.parquet")
        table = pa.table({"id": list(map(str, range(len(half)))), "nodes": pa.array(nodes, NODES)})
        pq.write_table(table.append_column("edges", pa.array(edges, EDGES)), paths[-1])
    return paths


def node(number: int) -> dict[str, str]:
    return {"id": f"N{number:03d}", "name": f"name of {number}", "type": "T"}


def test_counts_are_those_of_a_plain_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_use, "BATCH", 7)
    draw = random.Random(3)
    records: list[tuple[Any, Any]] = [(None, None), ([], [])]
    for _ in range(300):
        numbers = [int(draw.paretovariate(0.6)) % 150 for _ in range(draw.randint(1, 5))]
        size = range(len(numbers))
        edges = [[draw.choice(size), draw.choice(size)] for _ in range(draw.randint(0, 4))]
        records.append(([node(number) for number in numbers], edges))
    draw.shuffle(records)
    questions = Counter(one["id"] for nodes, _ in records for one in nodes or ())
    links = {
        tuple(sorted((nodes[a]["id"], nodes[b]["id"]))) for nodes, edges in records for a, b in edges or ()
    }
    degrees = Counter(end for ends in links if ends[0] != ends[1] for end in ends)
    found = count_nodes(parts(tmp_path, records), seed=1)
    assert found.links == len(links)
    rows = zip(found.questions.tolist(), found.degrees.tolist(), strict=True)
    assert sorted(rows) == sorted((count, degrees[name]) for name, count in questions.items())
    expected = sorted(questions.items(), key=lambda one: (-one[1], one[0]))[: node_use.TOP_NODES]
    assert found.top == [(name, f"name of {int(name[1:])}", count) for name, count in expected]


def test_without_nodes_or_edges_there_is_nothing_to_count(tmp_path: Path) -> None:
    none = tmp_path / "none.parquet"
    pq.write_table(pa.table({"id": ["a"]}), none)
    assert count_nodes([none], seed=1).top == []
    alone = tmp_path / "alone.parquet"
    pq.write_table(pa.table({"nodes": pa.array([[node(1)], None], NODES)}), alone)
    found = count_nodes([alone, *parts(tmp_path, [(None, None)])], seed=1)
    assert (found.questions.tolist(), found.links, found.top) == ([1], 0, [("N001", "name of 1", 1)])


def test_a_count_larger_than_the_memory_leaves_no_file_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[tuple[Any, Any]] = [
        ([{"id": f"N{n}-{i}" * 10, "name": "x" * 40, "type": "T"} for i in range(20)], [[0, 1]])
        for n in range(20_000)
    ]
    paths = parts(tmp_path, records)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    spilled = []
    monkeypatch.setattr(node_use, "MEMORY", "60MB")
    read = node_use._read
    monkeypatch.setattr(node_use, "_read", lambda *given: (read(*given), spilled.extend(Path().iterdir())))
    assert len(count_nodes(paths, seed=1).questions) == 400_000
    assert spilled == list(Path().iterdir()) == []

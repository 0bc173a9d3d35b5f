"""Parts of a split share nothing of what they were divided by, and say what they share otherwise."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa_hpc.config.sections import Split
from kgqa_hpc.dataset.splits import divide


def parts_of(rows: Any) -> list[str]:
    return [part for (part,) in rows.database.execute("SELECT part FROM candidate ORDER BY row").fetchall()]


NODES = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), max_size=60)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(nodes=NODES, seed=st.integers(0, 2**32))
def test_no_node_is_in_two_parts(
    tmp_path_factory: pytest.TempPathFactory, rows_of: Any, nodes: list[list[int]], seed: int
) -> None:
    records = [{"nodes": [{"id": f"N:{n}"} for n in one]} for one in nodes]
    rows = rows_of(tmp_path_factory.mktemp("rows"), records)
    told = divide(rows, Split(by="nodes"), seed)
    where: dict[int, set[str]] = {}
    for part, one in zip(parts_of(rows), nodes, strict=True):
        for node in one:
            where.setdefault(node, set()).add(part)
    assert all(len(parts) == 1 for parts in where.values())
    assert told["shared_values"] == 0
    assert sum(part["records"] for part in told["parts"].values()) == len(nodes)


def test_shares_are_met_where_groups_are_small_and_repeats_counted(tmp_path: Path, rows_of: Any) -> None:
    rows = rows_of(tmp_path, [{"taxon": f"t{i // 5}"} for i in range(1000)])
    told = divide(rows, Split(by="taxon", shares={"train": 0.8, "dev": 0.1, "test": 0.1}), 3)
    assert [part["records"] for part in told["parts"].values()] == [800, 100, 100]
    assert (told["groups"], told["largest_group"], told["repeated_questions"]) == (200, 5, 1)


def test_questions_that_differ_in_their_names_are_not_repeated(tmp_path: Path, rows_of: Any) -> None:
    protein = {"question": "What does the protein do?"}
    records = [{**protein, "question_with_names": f"What does protein {i} do?"} for i in range(20)]
    assert divide(rows_of(tmp_path, records), Split(by="id"), 3)["repeated_questions"] == 0
    assert divide(rows_of(tmp_path, [protein] * 20), Split(by="id"), 3)["repeated_questions"] == 1


def test_a_group_larger_than_its_part_is_told_and_not_torn(tmp_path: Path, rows_of: Any) -> None:
    rows = rows_of(tmp_path, [{"taxon": "one"}] * 95 + [{"taxon": "two"}] * 5)
    told = divide(rows, Split(by="taxon", shares={"train": 0.5, "test": 0.5}), 3)
    assert sorted(part["records"] for part in told["parts"].values()) == [5, 95]
    assert told["largest_group"] == 95


def test_the_same_seed_gives_the_same_parts(tmp_path: Path, rows_of: Any) -> None:
    rows = rows_of(tmp_path, [{"taxon": f"t{i}"} for i in range(100)])
    parts = []
    for seed in (1, 1, 2):
        divide(rows, Split(by="taxon"), seed)
        parts.append(parts_of(rows))
    assert parts[0] == parts[1] != parts[2]

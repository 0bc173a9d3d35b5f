"""Parts and orders of a dataset: the same from any shards and processes; parts of a split share nothing."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa_hpc.config.sections import Split
from kgqa_hpc.dataset import write
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.splits import divide
from kgqa_hpc.dataset.write import cuts, key_of
from kgqa_hpc.errors import InputError
from tests.dataset.conftest import contents, records_of, rewrite

WISHES: list[dict[str, Any]] = [
    {},
    {"order": "answer"},
    {"split": {"by": "group", "shares": {"train": 0.7, "test": 0.3}}},
    {"order": "id", "split": {"by": "group", "shares": {"train": 0.7, "test": 0.3}}},
]
PART_BYTES = 12_000


def ids_in_parts(folder: Path, stem: str) -> list[str]:
    """Of all parts in the order of their numbers, which must be those of so many."""
    paths = sorted(folder.glob(f"{stem}-?????-of-*.parquet"))
    assert [path.name for path in paths] == [
        f"{stem}-{number:05d}-of-{len(paths):05d}.parquet" for number in range(len(paths))
    ]
    tables = [pq.read_table(path, columns=["id"])["id"].to_pylist() for path in paths]
    assert all(tables)
    return [one for table in tables for one in table]


@pytest.mark.parametrize("wish", WISHES)
def test_parts_have_the_records_of_the_lines_and_the_same_bytes_from_one_process_and_from_two(
    make_run: Any, wish: dict[str, Any]
) -> None:
    run = make_run(dataset=wish).finish()
    folder = run.folder.dataset
    merge(run.folder)
    whole = contents(folder)
    accounting = merge(run.folder, processes=1, part_bytes=PART_BYTES)
    alone = contents(folder)
    assert len(list(folder.glob("accepted*.parquet"))) >= 3
    for name in ("accepted.jsonl", "rejected.jsonl", "lost.jsonl", "accounting.json"):
        assert alone[name] == whole[name]
    told = {name: part["records"] for name, part in accounting.splits.get("parts", {}).items()}
    assert Counter(one.get("split") for one in records_of(folder)) == (
        told or {None: accounting.total.accepted}
    )
    for name in ("accepted", "rejected"):
        records = records_of(folder, name)
        parts = sorted({one.get("split") for one in records} - {None})
        for part in parts or [None]:
            expected = [one["id"] for one in records if one.get("split") == part]
            assert ids_in_parts(folder, f"{name}-{part}" if part else name) == expected
    merge(run.folder, processes=2, part_bytes=PART_BYTES)
    assert contents(folder) == alone


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 400))
def test_stretches_are_as_few_as_can_be_without_gaps_and_no_longer_than_the_limit_and_a_row(
    sizes: list[int], limit: int
) -> None:
    found = cuts(np.array(sizes, np.int32), limit)
    assert [number for start, end in found for number in range(start, end)] == list(range(len(sizes)))
    assert len(found) <= max(1, -(-sum(sizes) // limit))
    assert all(sum(sizes[start:end]) <= limit + max(sizes) for start, end in found if sizes)


@pytest.mark.parametrize("rows", [1, 7, 1 << 30])
def test_all_records_stand_in_the_order_of_the_column_then_of_their_ids(
    merged: Any, make_merged: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(write, "SORT_ROWS", rows)  # of a file that is put in order by itself
    monkeypatch.setattr(write, "SORT_MEMORY", 20_000)
    folder = make_merged(dataset={"order": "answer"})[0].folder.dataset
    for name in ("accepted", "rejected"):
        before, after = records_of(merged[0].folder.dataset, name), records_of(folder, name)
        expected = sorted(before, key=lambda one: (one["answer"], one["id"]))
        assert [one["id"] for one in after] == [one["id"] for one in expected]
        assert after != before
        table = pq.read_table(next(folder.glob(f"{name}-*.parquet")))
        assert table["id"].to_pylist() == [one["id"] for one in after]


def test_numbers_come_before_texts_and_nothing_comes_last() -> None:
    values = [None, "b", 10, "a", 2.5, None]
    keys = sorted(key_of({"id": f"r{i}", "v": {"w": value}}, "v.w") for i, value in enumerate(values))
    assert [key[-1] for key in keys] == ["r4", "r2", "r3", "r1", "r0", "r5"]


@pytest.mark.parametrize(
    "wish",
    [{"order": "colour"}, {"split": {"by": "colour"}}, {"debias": {"columns": ["colour"], "number": 1}}],
    ids=str,
)
def test_a_column_of_no_record_is_named_and_no_dataset_written(make_run: Any, wish: dict[str, Any]) -> None:
    run = make_run(dataset=wish).finish()
    with pytest.raises(InputError, match="has no column 'colour'"):
        merge(run.folder)
    assert not run.folder.dataset.exists()


def test_a_field_that_a_whole_shard_lacks_is_null_there_and_comes_last(make_run: Any) -> None:
    run = make_run(dataset={"order": "verdicts.judge.my_answer", "z_score": None}).finish()

    def unjudged(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [record | {"verdicts": {}, "decided": False} for record in records]

    rewrite(run.folder.result("main", run.manifest.names[0]), unjudged)
    merge(run.folder)
    judged = [one["verdicts"]["judge"] is not None for one in records_of(run.folder.dataset)]
    assert judged == sorted(judged, reverse=True)
    assert set(judged) == {True, False}


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

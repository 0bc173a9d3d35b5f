"""A dataset in several parts: cut by its rows alone, the same from any number of processes, each part within bounds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.write import cuts, table_of
from tests.dataset.conftest import contents

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
    run = make_run(dataset=wish)
    run.finish()
    folder = run.folder.dataset
    merge(run.folder)
    whole = contents(folder)
    merge(run.folder, processes=1, part_bytes=PART_BYTES)
    alone = contents(folder)
    assert len(list(folder.glob("accepted*.parquet"))) >= 3
    for name in ("accepted.jsonl", "rejected.jsonl", "lost.jsonl", "accounting.json"):
        assert alone[name] == whole[name]
    for name in ("accepted", "rejected"):
        records = [orjson.loads(line) for line in alone[f"{name}.jsonl"].splitlines()]
        parts = sorted({one.get("split") for one in records} - {None})
        for part in parts or [None]:
            expected = [one["id"] for one in records if one.get("split") == part]
            assert ids_in_parts(folder, f"{name}-{part}" if part else name) == expected
    merge(run.folder, processes=2, part_bytes=PART_BYTES)
    assert contents(folder) == alone


def test_where_parts_end_depends_on_no_shards(make_run: Any) -> None:
    found = []
    for size in (4, 25):
        run = make_run(name=f"run-{size}", shard_size=size)
        run.finish()
        merge(run.folder, part_bytes=PART_BYTES)
        found.append({k: v for k, v in contents(run.folder.dataset).items() if k.endswith("parquet")})
    assert found[0] == found[1]
    assert len(found[0]) > 4


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 400))
def test_stretches_are_as_few_as_can_be_without_gaps_and_no_longer_than_the_limit_and_a_row(
    sizes: list[int], limit: int
) -> None:
    found = cuts(np.array(sizes, np.int32), limit)
    assert [number for start, end in found for number in range(start, end)] == list(range(len(sizes)))
    assert len(found) <= max(1, -(-sum(sizes) // limit))
    assert all(sum(sizes[start:end]) <= limit + max(sizes) for start, end in found if sizes)


def test_parquet_is_never_four_times_as_large_as_its_lines(tmp_path: Path) -> None:
    """The worst there is: a digit and a comma in a list take eight bytes, if nothing were compressed."""
    rng = random.Random(5)
    print("seed 5")
    schema = pa.schema([("a", pa.list_(pa.int64())), ("b", pa.list_(pa.float64())), ("c", pa.string())])
    lines = [
        orjson.dumps(
            {
                "a": [rng.randrange(10) for _ in range(500)],
                "b": [rng.choice([0.5, 1.5, rng.random()]) for _ in range(50)],
                "c": rng.choice("abc"),
            }
        )
        + b"\n"
        for _ in range(300)
    ]
    path = tmp_path / "accepted.parquet"
    pq.write_table(table_of(b"".join(lines), schema), path, compression="zstd")
    assert path.stat().st_size < 4 * sum(map(len, lines))
    columns = [pq.read_metadata(path).row_group(0).column(i) for i in range(3)]
    assert sum(one.total_uncompressed_size for one in columns) < 4 * sum(map(len, lines))

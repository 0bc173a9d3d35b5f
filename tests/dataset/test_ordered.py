"""Where an order is asked for, both files have it, whatever the shards and however little is sorted in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from kgqa_hpc.dataset import order
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.order import key_of
from kgqa_hpc.errors import InputError


def records(folder: Path, name: str = "accepted") -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / f"{name}.jsonl").read_bytes().splitlines()]


@pytest.mark.parametrize("rows", [1, 7, 1 << 30])
def test_all_records_stand_in_the_order_of_the_column_then_of_their_ids(
    make_run: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(order, "ROWS", rows)  # of a file that is put in order by itself
    monkeypatch.setattr(order, "MEMORY", 20_000)
    plain = make_run(name="plain")
    plain.finish()
    merge(plain.folder)
    run = make_run(name="run", dataset={"order": "answer"})
    run.finish()
    merge(run.folder)
    for name in ("accepted", "rejected"):
        before, after = records(plain.folder.dataset, name), records(run.folder.dataset, name)
        expected = sorted(before, key=lambda one: (one["answer"], one["id"]))
        assert (
            [one["id"] for one in after] == [one["id"] for one in expected] != [one["id"] for one in before]
        )
        table = pq.read_table(next(run.folder.dataset.glob(f"{name}-*.parquet")))
        assert table["id"].to_pylist() == [one["id"] for one in after]


def test_the_order_depends_on_no_shards_and_parts_keep_theirs(make_run: Any) -> None:
    wish = {"order": "id", "split": {"by": "group", "shares": {"train": 0.5, "test": 0.5}}}
    found = []
    for size in (4, 30):
        run = make_run(name=f"run-{size}", shard_size=size, dataset=wish)
        run.finish()
        merge(run.folder)
        found.append([(one["id"], one["split"]) for one in records(run.folder.dataset)])
        for part in ("train", "test"):
            ids = pq.read_table(next(run.folder.dataset.glob(f"accepted-{part}-*")))["id"].to_pylist()
            assert ids == [name for name, split in found[-1] if split == part]
    assert found[0] == found[1] == sorted(found[0])


def test_numbers_come_before_texts_and_nothing_comes_last() -> None:
    values = [None, "b", 10, "a", 2.5, None]
    keys = sorted(key_of({"id": f"r{i}", "v": {"w": value}}, "v.w") for i, value in enumerate(values))
    assert [key[-1] for key in keys] == ["r4", "r2", "r3", "r1", "r0", "r5"]


def test_a_column_that_no_record_has_is_named_and_no_dataset_is_written(make_run: Any) -> None:
    run = make_run(dataset={"order": "colour"})
    run.finish()
    with pytest.raises(InputError, match="has no column 'colour'"):
        merge(run.folder)
    assert not run.folder.dataset.exists()

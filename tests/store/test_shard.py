"""shard: written once, verified before a single anchor is returned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import CorruptFile, StoreError
from kgqa_hpc.store.sealed import create_sealed
from kgqa_hpc.store.shards import ShardEntry, read_shard, shard_entry, write_shard

Make = Callable[[int], dict[str, Any]]


def test_a_shard_comes_back_as_written(tmp_path: Path, make_anchor: Make) -> None:
    rows = [make_anchor(number) for number in range(9)]
    entry = write_shard(tmp_path / "shard-000003.h5", rows, {"start": 27})
    assert read_shard(tmp_path / "shard-000003.h5", entry.sha256) == rows
    assert entry == shard_entry(tmp_path / "shard-000003.h5") == ShardEntry("shard-000003", 9, entry.sha256)


def test_an_exclusive_shard_is_the_first_ones(tmp_path: Path, make_anchor: Make) -> None:
    first = write_shard(tmp_path / "s.h5", [make_anchor(1)], {}, exclusive=True)
    assert write_shard(tmp_path / "s.h5", [make_anchor(2)], {}, exclusive=True) == first
    assert read_shard(tmp_path / "s.h5") == [make_anchor(1)]


def test_a_whole_shard_that_is_not_the_listed_one_is_refused(tmp_path: Path, make_anchor: Make) -> None:
    listed = write_shard(tmp_path / "s.h5", [make_anchor(1)], {})
    write_shard(tmp_path / "s.h5", [make_anchor(2)], {})
    with pytest.raises(CorruptFile, match="not the shard that the manifest lists"):
        read_shard(tmp_path / "s.h5", listed.sha256)


def test_a_missing_shard_and_one_without_a_table_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        read_shard(tmp_path / "s.h5")
    with create_sealed(tmp_path / "s.h5", "shard", header={"rows": 0}):
        pass
    with pytest.raises(CorruptFile, match="without the table anchors"):
        read_shard(tmp_path / "s.h5")

"""rows: tables of text, JSON and numbers come back row by row, whatever their size."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.errors import CorruptFile, StoreError
from kgqa_hpc.store import table as rows
from kgqa_hpc.store.sealed import create_sealed
from kgqa_hpc.store.table import TableWriter, open_table, write_table

COLUMNS = {"name": "utf8", "value": "json", "size": "int32"}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(),
            "value": st.none() | st.text() | st.dictionaries(st.text(), st.integers(-100, 100)),
            "size": st.integers(-(2**31), 2**31 - 1),
        }
    ),
    max_size=30,
)


def stored(path: Path, table: list[dict[str, Any]]) -> Path:
    with create_sealed(path, "thing") as file:
        write_table(file.create_group("t"), COLUMNS, table)
    return path


@settings(deadline=None)
@given(table=ROWS, bounds=st.tuples(st.integers(0, 31), st.integers(0, 31)))
def test_every_slice_is_the_slice_of_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, table: list[dict[str, Any]], bounds: tuple[int, int]
) -> None:
    path = stored(tmp_path_factory.mktemp("rows") / "f.h5", table)
    start, stop = bounds
    with open_table(path, "thing", "t") as read:
        assert len(read) == len(table)
        assert read.text("name") == [row["name"] for row in table]
        assert read.json("value", start, stop) == [row["value"] for row in table[start:stop]]
        assert read.numbers("size", start, stop).tolist() == [row["size"] for row in table[start:stop]]
        assert read.numbers("size").dtype == np.int32


def test_a_big_table_is_written_in_chunks_compressed_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FLUSH_BYTES", 10_000)
    with create_sealed(tmp_path / "f.h5", "thing") as file:
        writer = TableWriter(file.create_group("t"), COLUMNS)
        for number in range(30_000):
            writer.append({"name": f"row {number}", "value": {"n": number}, "size": number})
        writer.close()
    with open_table(tmp_path / "f.h5", "thing", "t") as table:
        assert table.json("value", 29_990) == [{"n": n} for n in range(29_990, 30_000)]
        assert table.text("name", 12_345, 12_347) == ["row 12345", "row 12346"]
        assert table.numbers("size").tolist() == list(range(30_000))
        for member, shuffled in (("name/bytes", False), ("name/offsets", True), ("size", True)):
            dataset = table._group[member]
            assert (dataset.compression, dataset.shuffle, dataset.fletcher32) == ("gzip", shuffled, True)


@pytest.mark.parametrize(
    "packed", [b"no deflated bytes" * 9, zlib.compress(b"fewer than declared" * 99) + b"sum " * 99]
)
def test_a_chunk_that_cannot_be_unpacked_is_one_error_although_the_checksum_is_its_authors(
    tmp_path: Path, packed: bytes
) -> None:
    with create_sealed(tmp_path / "f.h5", "thing") as file:
        write_table(file.create_group("t"), COLUMNS, [{"name": "n" * 30_000, "value": None, "size": 1}])
        file["t/name/bytes"].id.write_direct_chunk((0,), packed)
    with pytest.raises(StoreError, match=r"f\.h5"), open_table(tmp_path / "f.h5", "thing", "t") as table:
        table.text("name")


def test_small_datasets_are_plain(tmp_path: Path) -> None:
    path = stored(tmp_path / "f.h5", [{"name": "a", "value": 1, "size": 2}])
    with open_table(path, "thing", "t") as table:
        assert table._group["size"].chunks is None


def test_a_text_is_found_by_whole_rows_only(tmp_path: Path) -> None:
    names = ["aa", "a", "aaa", "", "ba", "a"]
    path = stored(tmp_path / "f.h5", [{"name": name, "value": 0, "size": 0} for name in names])
    with open_table(path, "thing", "t") as table:
        assert [table.find("name", name) for name in ("aa", "a", "aaa", "ba")] == [0, 1, 2, 4]
        assert table.find("name", "aab") is None
        assert table.find("name", "") is None


def test_a_lone_surrogate_in_a_text_does_not_stop_the_table(tmp_path: Path) -> None:
    path = stored(tmp_path / "f.h5", [{"name": "a\ud800", "value": "b\udfff", "size": 0}])
    with open_table(path, "thing", "t") as table:
        assert (table.text("name"), table.json("value")) == (["a?"], ["b?"])


def test_a_file_without_the_table_is_corrupt(tmp_path: Path) -> None:
    with create_sealed(tmp_path / "f.h5", "thing") as file:
        file.create_group("other")
        file["t"] = 1
    for group in ("missing", "other", "t"):
        with pytest.raises(CorruptFile, match=f"without the table {group}"):
            open_table(tmp_path / "f.h5", "thing", group).__enter__()


def test_a_column_that_a_row_lacks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), create_sealed(tmp_path / "f.h5", "thing") as file:
        write_table(file.create_group("t"), COLUMNS, [{"name": "a"}])

"""Tables of rows, and the anchors, shards and results made of them, come back row by row whatever their size."""

import subprocess
import sys
import textwrap
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.errors import CorruptFile, StoreError
from kgqa_hpc.store import table
from kgqa_hpc.store.sealed import create_sealed, read_header
from kgqa_hpc.store.shards import (
    OTHER,
    AnchorsFile,
    Tally,
    read_result,
    read_summary,
    write_anchors,
    write_result,
)
from kgqa_hpc.store.table import open_table, write_table
from tests.store.conftest import anchor, record

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
Rows = list[dict[str, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.h5"


def stored(path: Path, rows: Rows) -> Path:
    with create_sealed(path, "thing") as file:
        write_table(file.create_group("t"), COLUMNS, rows)
    return path


def texts(path: Path, column: str) -> list[str]:
    """A column of text, read with h5py alone."""
    with h5py.File(path, "r") as file:
        offsets, text = file[column]["offsets"][:], file[column]["bytes"][:].tobytes().decode()
        return [text[begin:end] for begin, end in pairwise(offsets)]


BOUNDS = st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31)), min_size=1, max_size=8)


@settings(max_examples=40)  # files, each with several slices
@given(rows=ROWS, bounds=BOUNDS)
def test_every_slice_is_the_slice_of_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: Rows, bounds: list[tuple[int, int]]
) -> None:
    with open_table(stored(tmp_path_factory.getbasetemp() / "f.h5", rows), "thing", "t") as read:
        assert read.rows == len(rows)
        assert read.text("name") == [row["name"] for row in rows]
        for start, stop in bounds:
            assert read.json("value", start, stop) == [row["value"] for row in rows[start:stop]]
            assert read.text("name", start, stop) == [row["name"] for row in rows[start:stop]]
        assert read.numbers("size").tolist() == [row["size"] for row in rows]
        assert read.numbers("size").dtype == np.int32


def test_a_big_table_is_written_in_chunks_compressed_and_checked_and_a_small_one_is_plain(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "FLUSH_BYTES", 10_000)
    rows = ({"name": f"row {number}", "value": {"n": number}, "size": number} for number in range(30_000))
    with create_sealed(path, "thing") as file:
        write_table(file.create_group("t"), COLUMNS, rows)
    with open_table(path, "thing", "t") as big:
        assert big.json("value", 29_990) == [{"n": n} for n in range(29_990, 30_000)]
        assert big.text("name", 12_345, 12_347) == ["row 12345", "row 12346"]
        assert big.numbers("size").tolist() == list(range(30_000))
        for member, shuffled in (("name/bytes", False), ("name/offsets", True), ("size", True)):
            dataset = big._group[member]
            assert (dataset.compression, dataset.shuffle, dataset.fletcher32) == ("gzip", shuffled, True)
    with open_table(stored(path, [{"name": "a", "value": 1, "size": 2}]), "thing", "t") as small:
        assert small._group["size"].chunks is None


@pytest.mark.parametrize(
    "packed", [b"no deflated bytes" * 9, zlib.compress(b"fewer than declared" * 99) + b"sum " * 99]
)
def test_a_chunk_that_cannot_be_unpacked_is_an_error_although_the_checksum_is_its_authors(
    path: Path, packed: bytes
) -> None:
    with create_sealed(path, "thing") as file:
        write_table(file.create_group("t"), COLUMNS, [{"name": "n" * 30_000, "value": None, "size": 1}])
        file["t/name/bytes"].id.write_direct_chunk((0,), packed)
    with pytest.raises(StoreError, match=r"s\.h5"), open_table(path, "thing", "t") as broken:
        broken.text("name")


def test_a_text_is_found_by_whole_rows_and_a_lone_surrogate_does_not_stop_the_table(path: Path) -> None:
    names = ["aa", "a", "aaa", "", "ba", "a", "s\ud800"]
    stored(path, [{"name": name, "value": "b\udfff", "size": 0} for name in names])
    with open_table(path, "thing", "t") as read:
        assert [read.find("name", name) for name in ("aa", "a", "aaa", "ba", "aab", "")] == [
            0, 1, 2, 4, None, 3,
        ]  # fmt: skip
        assert (read.text("name")[-1], read.json("value")[0]) == ("s?", "b?")


def test_a_file_without_the_table_and_a_row_without_a_column_are_errors(path: Path) -> None:
    with create_sealed(path, "thing") as file:
        file.create_group("other")
        file["t"] = 1
    for group in ("missing", "other", "t"):
        with pytest.raises(CorruptFile, match=f"without the table {group}"):
            open_table(path, "thing", group).__enter__()
    with pytest.raises(KeyError):
        stored(path, [{"name": "a"}])


def test_anchors_come_back_in_order_by_slices_and_by_id(path: Path) -> None:
    rows = [anchor(number) for number in range(50)]
    assert write_anchors(path, iter(rows), {"seed": 5}) == 50
    header = read_header(path, "anchors")
    assert (header["rows"], header["seed"]) == (50, 5)
    with AnchorsFile(path) as file:
        assert len(file) == 50
        assert list(file.rows()) == rows
        assert list(file.rows(3, 20)) == rows[3:20]
        assert list(file.rows(45, 99)) == rows[45:]
        assert [Anchor.from_dict(row).to_dict() for row in file.rows()] == rows
        assert file.find(rows[31]["id"]) == 31
        assert file.find("g01-") is None
    assert texts(path, "anchors/group") == [row["group"] for row in rows]
    with h5py.File(path, "r") as plain:
        assert plain["anchors/weight"][:].tolist() == [row["weight"] for row in rows]
    assert write_anchors(path, [], {}) == 0
    with AnchorsFile(path) as file:
        assert list(file.rows()) == []


def test_an_id_that_comes_twice_is_refused_and_nothing_written(path: Path) -> None:
    with pytest.raises(ValueError, match="1 anchors have an id that another one has"):
        write_anchors(path, [anchor(1), anchor(2), anchor(1)], {})
    with pytest.raises(ValueError, match="1 records have an id that another one has"):
        write_result(path, [record("g01-a"), record("g01-a")], {})
    assert list(path.parent.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_memory_does_not_grow_with_the_number_of_anchors(path: Path) -> None:
    program = """
        import resource, sys
        from pathlib import Path
        from kgqa_hpc.store.shards import AnchorsFile, write_anchors

        def anchors(n):
            for i in range(n):
                nodes = [[f"N:{i}-{k}", f"a name of ordinary length {k}", "Phenotype"] for k in range(5)]
                yield {"id": f"g07-{i:016x}", "kind": "graphlet", "group": "shape 7", "nodes": nodes,
                       "weight": 1.0, "relations": [[0, 1, "is a"]] * 6, "data": {"shape": 7}}

        path, n = Path(sys.argv[1]), int(sys.argv[2])
        write_anchors(path, anchors(1000), {})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write_anchors(path, anchors(n), {})
        with AnchorsFile(path) as file:
            assert sum(1 for _ in file.rows()) == n
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path), "60000"]
    grown = int(subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout)
    # 60,000 of these are 30 MB of JSON and would be 150 MB of Python objects.
    assert grown < 60


def test_a_result_has_its_records_in_order_and_the_second_writer_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "s.h5"
    records = [record(f"g01-{number:016x}") for number in (5, 3, 4)]
    assert write_result(path, records, {"pass": "main"})
    assert not write_result(path, [record("g01-a", "second")], {})
    assert read_result(path) == records
    assert [entry.name for entry in path.parent.iterdir()] == ["s.h5"]
    assert texts(path, "records/status") == ["rejected", "rejected", "accepted"]


def test_the_header_counts_statuses_reasons_tokens_and_repairs(path: Path) -> None:
    write_result(path, [record(f"g01-{number:x}") for number in range(5)], {"pass": "main", "worker": "w1"})
    header = read_summary(path)
    assert header["counts"] == {"accepted": 3, "rejected": 2}
    assert header["reasons"] == {"judge: not valid": 2}
    assert header["tokens"] == {"prompt": 500, "completion": 100, "cached": 320}
    assert (header["repaired"], header["requests"], header["rows"]) == (3, 5, 5)
    assert (header["pass"], header["worker"]) == ("main", "w1")
    tally = Tally()
    tally.row({"id": "a", "status": "failed", "reason": None, "trace": [{"tokens": None}]})
    assert (tally.summary()["requests"], tally.summary()["counts"]) == (1, {"failed": 1})


def test_a_flood_of_reasons_still_fits_and_still_adds_up(path: Path) -> None:
    records = [
        {"id": f"g{n}", "status": "invalid", "reason": f"reason {n // 2} \"'\n é" * 4, "trace": []}
        for n in range(200)
    ]
    records += [{"id": "x", "status": "failed", "reason": "often"}, {"id": "y", "status": "open"}]
    assert write_result(path, records, {"fingerprint": "f" * 64, "shard_sha256": "e" * 64})
    header = read_summary(path)
    assert sum(header["reasons"].values()) == 201
    assert header["reasons"][OTHER] > 100
    assert "omitted" not in header


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**70, 10**30, -7, 1.5e300, None, True, "many"])
def test_any_number_of_tokens_is_written_and_summed(path: Path, number: object) -> None:
    entry = {"step": "generate", "tokens": {"prompt": number, "completion": 20}}
    write_result(path, [{"id": f"i{n}", "status": "accepted", "trace": [entry] * 10} for n in range(100)], {})
    header = read_summary(path)
    assert header["tokens"]["completion"] == 20_000
    assert 0 <= header["tokens"]["prompt"] < 2**63

"""result: a shard is done once; its first kilobyte tells how it went."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import pytest

from kgqa_hpc.store.results import OTHER, Tally, read_result, read_summary, write_result

Make = Callable[..., dict[str, Any]]


def test_records_come_back_in_the_order_of_the_shard(tmp_path: Path, make_record: Make) -> None:
    records = [make_record(f"g01-{number:016x}") for number in (5, 3, 4)]
    assert write_result(tmp_path / "r" / "s.h5", records, {"pass": "main"})
    assert read_result(tmp_path / "r" / "s.h5") == records


def test_the_second_writer_learns_that_it_was_second_and_changes_nothing(
    tmp_path: Path, make_record: Make
) -> None:
    assert write_result(tmp_path / "s.h5", [make_record("g01-a", "first")], {})
    assert not write_result(tmp_path / "s.h5", [make_record("g01-a", "second")], {})
    assert read_result(tmp_path / "s.h5") == [make_record("g01-a", "first")]
    assert [path.name for path in tmp_path.iterdir()] == ["s.h5"]


def test_the_header_counts_statuses_reasons_tokens_and_repairs(tmp_path: Path, make_record: Make) -> None:
    records = [make_record(f"g01-{number:x}") for number in range(5)]
    write_result(tmp_path / "s.h5", records, {"pass": "main", "worker": "w1"})
    header = read_summary(tmp_path / "s.h5")
    assert header["counts"] == {"accepted": 3, "rejected": 2}
    assert header["reasons"] == {"judge: not valid": 2}
    assert header["tokens"] == {"prompt": 500, "completion": 100, "cached": 320}
    assert (header["repaired"], header["requests"], header["rows"]) == (3, 5, 5)
    assert (header["pass"], header["worker"]) == ("main", "w1")


def test_a_flood_of_reasons_still_fits_and_still_adds_up(tmp_path: Path) -> None:
    records = [
        {"id": f"g{n}", "status": "invalid", "reason": f"reason {n // 2} \"'\n é" * 4, "trace": []}
        for n in range(200)
    ]
    records += [{"id": "x", "status": "failed", "reason": "often"}, {"id": "y", "status": "open"}]
    assert write_result(tmp_path / "s.h5", records, {"fingerprint": "f" * 64, "shard_sha256": "e" * 64})
    header = read_summary(tmp_path / "s.h5")
    assert sum(header["reasons"].values()) == 201
    assert header["reasons"][OTHER] > 100
    assert "omitted" not in header


def test_a_record_without_tokens_or_trace_is_counted() -> None:
    tally = Tally()
    tally.row({"id": "a", "status": "failed", "reason": None, "trace": [{"tokens": None}]})
    found = tally.summary()
    assert (found["requests"], found["counts"]) == (1, {"failed": 1})


def test_an_id_that_comes_twice_is_refused(tmp_path: Path, make_record: Make) -> None:
    with pytest.raises(ValueError, match="1 records have an id that another one has"):
        write_result(tmp_path / "s.h5", [make_record("g01-a"), make_record("g01-a")], {})


def test_ids_and_statuses_can_be_read_with_h5py_alone(tmp_path: Path, make_record: Make) -> None:
    write_result(tmp_path / "s.h5", [make_record("g01-a"), make_record("g01-b")], {})
    with h5py.File(tmp_path / "s.h5", "r") as file:
        column = file["records/status"]
        ends = column["offsets"][:]
        text = column["bytes"][:].tobytes()
        assert [text[a:b] for a, b in pairwise(ends)] == [b"accepted", b"rejected"]


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**70, 10**30, -7, 1.5e300, None, True, "many"])
def test_any_number_of_tokens_is_written_and_summed(tmp_path: Path, number: object) -> None:
    entry = {"step": "generate", "tokens": {"prompt": number, "completion": 20}}
    rows = [{"id": f"i{n}", "status": "accepted", "trace": [entry] * 10} for n in range(1000)]
    write_result(tmp_path / "s.h5", rows, {})
    header = read_summary(tmp_path / "s.h5")
    assert header["tokens"]["completion"] == 200_000
    assert 0 <= header["tokens"]["prompt"] < 2**63

"""Every byte flipped and every truncation of every kind of file: found; no wrong record, no traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.errors import CorruptFile, NewerFormat
from kgqa_hpc.store.cleanup import quarantine_copy
from kgqa_hpc.store.document import read_document
from kgqa_hpc.store.fingerprint import read_manifest
from kgqa_hpc.store.journal import Journal, read_journal
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.results import read_result, write_result
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES, create_sealed, verify
from kgqa_hpc.store.shards import AnchorsFile, read_shard

Make = Callable[..., dict[str, Any]]


def flips(path: Path, all_bits_below: int = 0, stride: int = 1) -> Iterator[tuple[int, int]]:
    """Each byte of the file in turn with one bit flipped; with each of the eight in the first bytes.

    `stride` leaves out bytes behind these, never a region: strides are odd and small.
    """
    data = path.read_bytes()
    fd = os.open(path, os.O_RDWR)
    try:
        for position, byte in enumerate(data):
            if position >= all_bits_below and position % stride:
                continue
            for mask in [1 << bit for bit in range(8)] if position < all_bits_below else [1 << position % 8]:
                os.pwrite(fd, bytes([byte ^ mask]), position)
                yield position, mask
            os.pwrite(fd, bytes([byte]), position)
    finally:
        os.close(fd)
    assert path.read_bytes() == data


def truncations(path: Path, stride: int = 1) -> Iterator[int]:
    """Every shorter size, longest first."""
    data = path.read_bytes()
    for size in range(len(data) - 1, -1, -stride):
        os.truncate(path, size)
        yield size
    path.write_bytes(data)


def expect_found(path: Path, read: Callable[[], object], all_bits_below: int = 0, stride: int = 1) -> None:
    read()
    for position, mask in flips(path, all_bits_below, stride):
        with pytest.raises(CorruptFile):
            _quiet(read, f"byte {position} xor {mask}")
    for size in truncations(path, stride):
        with pytest.raises(CorruptFile):
            _quiet(read, f"size {size}")
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(CorruptFile):
        _quiet(read, "one byte too many")


def _quiet(read: Callable[[], object], what: str) -> None:
    try:
        read()
    except NewerFormat as problem:
        raise AssertionError(f"{what} was taken for a newer version") from problem
    except CorruptFile:
        raise
    except Exception as problem:
        raise AssertionError(f"{what}: {problem!r}") from problem


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_shard(cut_run: RunFolder) -> None:
    path = cut_run.shard("shard-000001")
    expect_found(path, lambda: read_shard(path), HEADER_BYTES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_result(tmp_path: Path, make_record: Make) -> None:
    path = tmp_path / "r.h5"
    write_result(path, [make_record("g01-a"), make_record("g01-b")], {"pass": "main"})
    expect_found(path, lambda: read_result(path))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_anchors(cut_run: RunFolder) -> None:
    expect_found(cut_run.anchors, lambda: AnchorsFile(cut_run.anchors).close(), stride=7)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_compressed_sealed_file_such_as_a_graphs(tmp_path: Path) -> None:
    path = tmp_path / "kg.h5"
    with create_sealed(path, "knowledge-graph") as file:
        values = np.arange(5000, dtype=np.int32) // 100
        file.create_dataset("edge_source", data=values, compression="gzip", shuffle=True, fletcher32=True)
    expect_found(path, lambda: verify(path, "knowledge-graph"), stride=5)


def test_a_manifest_of_a_run(run: RunFolder) -> None:
    expect_found(run.manifest_file, lambda: read_manifest(run.manifest_file), 10_000)


def test_a_manifest_of_shards(cut_run: RunFolder) -> None:
    expect_found(cut_run.shards_manifest, lambda: read_shards_manifest(cut_run), 10_000)


def test_a_pin_and_a_reason(run: RunFolder) -> None:
    run.pin("engine", {"digest": "abc"})
    copy = quarantine_copy(run.quarantine, run.config_file, "only a test")
    reason = copy.with_name(f"{copy.name}.reason.json")
    expect_found(run.pins / "engine.json", lambda: read_document(run.pins / "engine.json", "pin"), 10_000)
    expect_found(reason, lambda: read_document(reason, "reason"), 10_000)


def test_a_journal_yields_whole_records_only_and_tells_what_it_left_out(
    tmp_path: Path, make_record: Make
) -> None:
    path, header = tmp_path / "s.w0.journal", {"fingerprint": "f" * 64, "pass": "main", "shard": "s"}
    records = [make_record(f"g01-{k}") for k in range(3)]
    with Journal(path, header) as journal:
        for record in records:
            journal.append(record)
    first_line = path.read_bytes().index(b"\n")
    for position, mask in flips(path, 10_000):
        found, damage = read_journal(path, header)
        assert damage or damage.torn, f"byte {position} xor {mask} went unseen"
        assert all(record in records for record in found)
        # A flip costs its line; one that breaks or makes a newline costs two; one in the header all of them.
        assert len(found) >= 1 or position <= first_line
    for _ in truncations(path):
        found, damage = read_journal(path, header)
        assert found == records[: len(found)]
        assert not damage


def test_a_lease_stays_or_expires(tmp_path: Path) -> None:
    owner, other = (Leases(tmp_path / "leases", worker, 1000) for worker in ("w1", "w2"))
    lease = owner.claim("shard-000000")
    assert lease is not None
    path = owner.path("shard-000000")
    for _ in flips(path, 10_000):
        assert lease.renew() in (True, False)
        holder = other.holder("shard-000000")
        assert holder is not None
        assert other.expired(holder) == (holder.nonce == "")
    for size in range(path.stat().st_size - 2, -1, -1):
        os.truncate(path, size)
        holder = other.holder("shard-000000")
        assert holder is not None
        assert other.expired(holder)
    assert other.claim("shard-000000") is not None
    assert not lease.renew()

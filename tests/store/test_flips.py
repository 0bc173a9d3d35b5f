"""Every byte flipped and every truncation of every kind of file: found; no wrong record, no traceback."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from kgqa_hpc.errors import CorruptFile, NewerFormat
from kgqa_hpc.store.canonical import read_document
from kgqa_hpc.store.cleanup import quarantine
from kgqa_hpc.store.journal import Journal, read_journal
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import HEADER_BYTES, create_sealed, verify
from kgqa_hpc.store.shards import AnchorsFile, read_result, write_result
from tests.runs import read_shard
from tests.store.conftest import record


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


def expect_corrupt(read: Callable[[], object], damage: str) -> None:
    """Neither taken for whole nor for a newer version, and no other exception."""
    try:
        read()
    except NewerFormat as problem:
        raise AssertionError(f"{damage} was taken for a newer version") from problem
    except CorruptFile:
        return
    except Exception as problem:
        raise AssertionError(f"{damage}: {problem!r}") from problem
    raise AssertionError(f"{damage} went unseen")


@pytest.fixture
def filled(cut_run: RunFolder) -> Path:
    """A run folder with a file of each kind."""
    write_result(cut_run.path / "r.h5", [record("g01-a"), record("g01-b")], {"pass": "main"})
    with create_sealed(cut_run.kg, "thing") as file:  # compressed, as a graph's
        values = np.arange(5000, dtype=np.int32) // 100
        file.create_dataset("edge_source", data=values, compression="gzip", shuffle=True, fletcher32=True)
    cut_run.pin("engine", {"digest": "abc"})
    quarantine(cut_run.quarantine, cut_run.config_file, "only a test", copy=True)
    return cut_run.path


slow = (pytest.mark.slow, pytest.mark.timeout(3600))


@pytest.mark.parametrize(
    ("name", "read", "all_bits_below", "stride"),
    [
        pytest.param("shards/shard-000001.h5", read_shard, HEADER_BYTES, 1, marks=slow),
        pytest.param("r.h5", read_result, 0, 3, marks=slow),
        pytest.param("anchors.h5", lambda path: AnchorsFile(path).close(), 0, 7, marks=slow),
        pytest.param("kg.h5", partial(verify, kind="thing"), 0, 5, marks=slow),
        ("manifest.json", lambda path: RunFolder(path.parent).manifest(), 10_000, 1),
        # Read as the manifest is, whose every bit is flipped.
        ("shards/manifest.json", lambda path: read_shards_manifest(RunFolder(path.parents[1])), 0, 1),
        ("pins/engine.json", partial(read_document, kind="pin"), 0, 1),
        ("quarantine/*.reason.json", partial(read_document, kind="reason"), 0, 1),
    ],
)
def test_every_flip_and_truncation_is_found(
    filled: Path, name: str, read: Callable[[Path], object], all_bits_below: int, stride: int
) -> None:
    (path,) = filled.glob(name)
    read(path)
    for position, mask in flips(path, all_bits_below, stride):
        expect_corrupt(partial(read, path), f"byte {position} xor {mask}")
    for size in truncations(path, stride):
        expect_corrupt(partial(read, path), f"size {size}")
    path.write_bytes(path.read_bytes() + b"\n")
    expect_corrupt(partial(read, path), "one byte too many")


def test_a_journal_yields_whole_records_only_and_tells_what_it_left_out(tmp_path: Path) -> None:
    path, header = tmp_path / "s.w0.journal", {"fingerprint": "f" * 64, "pass": "main", "shard": "s"}
    records = [record(f"g01-{k}") for k in range(3)]
    with Journal(path, header) as journal:
        for row in records:
            journal.append(row)
    first_line = path.read_bytes().index(b"\n")
    for position, mask in flips(path, 10_000):
        found, damage = read_journal(path, header)
        assert damage or damage.torn, f"byte {position} xor {mask} went unseen"
        assert all(row in records for row in found)
        # A flip costs its line; one that breaks or makes a newline costs two; one in the header all of them.
        assert len(found) >= 1 or position <= first_line


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

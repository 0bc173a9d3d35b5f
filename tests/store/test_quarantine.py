"""quarantine: a corrupt file is set aside with its reason, and never twice."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store.cleanup import quarantine, quarantine_copy
from kgqa_hpc.store.document import read_document
from tests.disk_watch import watch


@pytest.fixture
def corrupt(tmp_path: Path) -> Path:
    path = tmp_path / "results" / "main" / "shard-000001.h5"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"broken")
    return path


def test_the_file_moves_and_the_reason_lies_beside_it(tmp_path: Path, corrupt: Path) -> None:
    moved = quarantine(tmp_path / "quarantine", corrupt, "the checksum does not match")
    assert moved is not None
    assert moved.read_bytes() == b"broken"
    assert moved.name.startswith("main-shard-000001.")
    assert moved.suffix == ".h5"
    assert not corrupt.exists()
    reason = read_document(moved.with_name(f"{moved.name}.reason.json"), "reason")
    assert reason["reason"] == "the checksum does not match"
    assert reason["file"] == str(corrupt)
    assert reason["pid"] == os.getpid()


def test_of_two_who_find_it_one_moves_it_and_one_learns_that(tmp_path: Path, corrupt: Path) -> None:
    assert quarantine(tmp_path / "quarantine", corrupt, "a")
    assert quarantine(tmp_path / "quarantine", corrupt, "b") is None
    assert len(list((tmp_path / "quarantine").iterdir())) == 2


def test_the_same_name_may_be_quarantined_again(tmp_path: Path, corrupt: Path) -> None:
    quarantine(tmp_path / "quarantine", corrupt, "a")
    corrupt.write_bytes(b"broken again")
    assert quarantine(tmp_path / "quarantine", corrupt, "b")
    assert len(list((tmp_path / "quarantine").glob("*.h5"))) == 2


def test_a_copy_leaves_the_file_and_is_kept_once(tmp_path: Path, corrupt: Path) -> None:
    one = quarantine_copy(tmp_path / "quarantine", corrupt, "a")
    assert quarantine_copy(tmp_path / "quarantine", corrupt, "a") == one
    assert one.read_bytes() == corrupt.read_bytes()
    assert len(list((tmp_path / "quarantine").iterdir())) == 2


def test_a_full_disk_is_disk_full_and_leaves_the_file_where_it_is(tmp_path: Path, corrupt: Path) -> None:
    def probe(call: str, where: str) -> None:
        if call == "rename" and where.endswith(".h5"):
            raise OSError(errno.ENOSPC, "full")

    with watch(probe), pytest.raises(DiskFull):
        quarantine(tmp_path / "quarantine", corrupt, "a")
    assert corrupt.read_bytes() == b"broken"
    assert list((tmp_path / "quarantine").iterdir()) == []

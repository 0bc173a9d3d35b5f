"""Leftovers of dead processes go and files of living ones stay; corrupt files are set aside once, with the reason."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc.errors import DiskFull
from kgqa_hpc.store import atomic
from kgqa_hpc.store.canonical import read_document
from kgqa_hpc.store.cleanup import LITTER_AGE, quarantine, sweep_temps
from kgqa_hpc.store.queue import Swept, sweep
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_result
from tests.disk_watch import refuse, watch
from tests.store.conftest import age

OLD = 2 * LITTER_AGE


def test_old_temp_files_are_swept_and_young_ones_stay(tmp_path: Path) -> None:
    names = [f".{name}{atomic.TEMP_SUFFIX}" for name in ("old", "young", "old-folder", "busy-folder")]
    old, young, folder, busy = (tmp_path / name for name in names)
    folder.mkdir()
    busy.mkdir()
    for path in (old, young, folder / "f", busy / "f", tmp_path / "data.h5"):
        path.touch()
    age(old, folder / "f", folder, busy, tmp_path / "data.h5", seconds=OLD)
    assert sweep_temps(tmp_path) == 2
    assert {path.name for path in tmp_path.iterdir()} == {young.name, busy.name, "data.h5"}
    assert sweep_temps(tmp_path / "nowhere") == 0
    age(young, seconds=OLD)
    with watch(lambda call, where: os.unlink(where) if call == "unlink" else None):  # another was first
        assert sweep_temps(tmp_path, prefix=young.name) == 0


def test_leftovers_of_a_run_go_and_work_stays(cut_run: RunFolder) -> None:
    assert sweep(cut_run, "main") == Swept()
    results = cut_run.results("main")
    for shard in ("shard-000000", "shard-000001"):
        header = cut_run.origin("main").header(shard, "")
        write_result(cut_run.result("main", shard), [{"id": shard, "status": "accepted"}], header)
    corrupt = cut_run.result("main", "shard-000001")
    corrupt.write_bytes(corrupt.read_bytes()[:-1])
    kept = [results / f"shard-00000{k}.w0.journal" for k in (1, 2)]
    for path in (*kept, results / "shard-000000.w0.journal", results / "shard-000000.w1.journal"):
        path.touch()
    fan = cut_run.leases("main") / "a7"
    fan.mkdir(parents=True)
    for folder in (cut_run.path, cut_run.shards, results, cut_run.leases("main"), fan):
        (folder / f".old{atomic.TEMP_SUFFIX}").touch()
        age(folder / f".old{atomic.TEMP_SUFFIX}", seconds=OLD)
        (folder / f".young{atomic.TEMP_SUFFIX}").touch()
    assert sweep(cut_run, "main") == Swept(temps=5, journals=2, quarantined=1)
    assert not corrupt.exists()
    assert all(path.exists() for path in kept)
    assert cut_run.result("main", "shard-000000").exists()
    assert (fan / f".young{atomic.TEMP_SUFFIX}").exists()
    assert sweep(cut_run, "main") == Swept()


def test_a_result_that_another_set_aside_meanwhile_is_not_counted(
    cut_run: RunFolder, set_aside: Callable[[Path], None]
) -> None:
    path = cut_run.result("main", "shard-000000")
    header = cut_run.origin("main").header("shard-000000", "")
    write_result(path, [{"id": "a", "status": "accepted"}], header)
    set_aside(path)
    assert sweep(cut_run, "main") == Swept()


@pytest.fixture
def corrupt(tmp_path: Path) -> Path:
    path = tmp_path / "results" / "main" / "shard-000001.h5"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"broken")
    return path


def test_a_corrupt_file_is_moved_once_with_the_reason_beside_it(tmp_path: Path, corrupt: Path) -> None:
    folder = tmp_path / "quarantine"
    with watch(refuse("rename", nth=2)), pytest.raises(DiskFull):  # the first names the reason
        quarantine(folder, corrupt, "a full disk leaves it where it is")
    assert list(folder.iterdir()) == []
    moved = quarantine(folder, corrupt, "the checksum does not match")
    assert moved is not None
    assert moved.read_bytes() == b"broken"
    assert moved.name.startswith("main-shard-000001.")
    assert moved.suffix == ".h5"
    reason = read_document(moved.with_name(f"{moved.name}.reason.json"), "reason")
    assert (reason["reason"], reason["file"]) == ("the checksum does not match", str(corrupt))
    assert reason["pid"] == os.getpid()
    assert quarantine(folder, corrupt, "another process finds it too") is None
    assert len(list(folder.iterdir())) == 2
    corrupt.write_bytes(b"broken again")
    assert quarantine(folder, corrupt, "the same name later")
    assert len(list(folder.glob("*.h5"))) == 2


def test_a_copy_leaves_the_file_and_is_kept_once(tmp_path: Path, corrupt: Path) -> None:
    copy = quarantine(tmp_path / "quarantine", corrupt, "a", copy=True)
    assert quarantine(tmp_path / "quarantine", corrupt, "a", copy=True) == copy
    assert copy is not None
    assert copy.read_bytes() == corrupt.read_bytes()
    assert len(list((tmp_path / "quarantine").iterdir())) == 2

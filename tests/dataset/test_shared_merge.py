"""A merge that several processes share, or a Dask cluster reads for, has the bytes of one process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.shared_merge import merge_shared
from kgqa_hpc.errors import AccountingError, CorruptFile
from kgqa_hpc.store.results import read_result, write_result

SETTINGS = {"split": {"by": "nodes"}, "duplicates": {"exact": True}}
SHARE = """
import os, signal, sys
from pathlib import Path
from kgqa_hpc.dataset.shared_merge import merge_shared
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.store.run_folder import RunFolder
run, fatal_read, fatal_write = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
write, reads = ShardReader.write, []
def dying(self, name, folder):
    reads.append(name)
    if len(reads) == fatal_read:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, name, folder)
ShardReader.write = dying
def die(done, total, label):
    if done == fatal_write:
        os.kill(os.getpid(), signal.SIGKILL)
counts = merge_shared(RunFolder(run), progress=die)
print("wrote" if counts else "waited")
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def share(run: Path, fatal_read: int = 0, fatal_write: int = 0) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", SHARE, str(run), str(fatal_read), str(fatal_write)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def run(make_run: Any) -> Any:
    """A finished run of 24 shards whose leases expire soon."""
    made = make_run(items=96, shard_size=4, dataset=SETTINGS, runtime={"lease": 2})
    made.finish()
    return made


def leftovers(run: Any) -> list[Path]:
    return list(run.folder.path.glob(".dataset.*"))


def test_four_processes_of_which_two_are_killed_give_the_bytes_of_one(run: Any) -> None:
    merge(run.folder)
    alone = contents(run.folder.dataset)
    told = run.folder.dataset.rename(run.folder.path / "alone")
    killed = [share(run.folder.path, fatal_read=n) for n in (2, 3)]  # neither can read all 24 before it dies
    assert [process.wait(timeout=300) for process in killed] == [-signal.SIGKILL] * 2
    others = [share(run.folder.path) for _ in range(2)]
    said = {process.communicate(timeout=300)[0].strip() for process in others}
    assert "wrote" in said <= {"waited", "wrote"}  # one that begins after the end merges anew
    assert contents(run.folder.dataset) == alone == contents(told)
    assert leftovers(run) == []


def test_when_the_one_that_writes_is_killed_another_writes_and_no_shard_is_read_again(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(run.folder)
    old = contents(run.folder.dataset)
    # 24 spools taken over, 16 of 24 written
    assert share(run.folder.path, fatal_write=40).wait(timeout=300) == -signal.SIGKILL
    assert contents(run.folder.dataset) == old
    monkeypatch.setattr(
        "kgqa_hpc.dataset.shard_rows.ShardReader.write", lambda *_: pytest.fail("a shard was read again")
    )
    assert merge_shared(run.folder) is not None
    assert contents(run.folder.dataset) == old


def test_a_result_that_is_done_anew_is_read_anew(run: Any) -> None:
    assert share(run.folder.path, fatal_write=30).wait(timeout=300) == -signal.SIGKILL
    path = run.folder.result("main", "shard-000003")
    records = read_result(path)
    records[1]["output"]["answer"] = "Another one."
    path.unlink()
    write_result(path, records, run.folder.origin("main").header("shard-000003", ""))
    assert merge_shared(run.folder) is not None
    shared = contents(run.folder.dataset)
    merge(run.folder)
    assert contents(run.folder.dataset) == shared
    assert b"Another one." in shared["accepted.jsonl"]


def test_work_that_is_left_refuses_a_shared_merge_too(make_run: Any) -> None:
    run = make_run(items=16)
    run.finish("shard-000000")
    with pytest.raises(AccountingError, match="1 of 2 shards are not done"):
        merge_shared(run.folder)


def test_a_local_dask_cluster_gives_the_bytes_of_one_process(run: Any) -> None:
    distributed = pytest.importorskip("distributed", reason="DASK IS NOT INSTALLED")
    from kgqa_hpc.dataset.dask_spools import dask_spools

    merge(run.folder)
    alone = contents(run.folder.dataset)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, dask_spools(cluster.scheduler_address) as spools:
        merge(run.folder, spools=spools)
        assert contents(run.folder.dataset) == alone
        damaged = run.folder.result("main", "shard-000005")
        damaged.write_bytes(damaged.read_bytes()[:-1])
        with pytest.raises(CorruptFile, match="shard-000005"):
            merge(run.folder, spools=spools)
    assert contents(run.folder.dataset) == alone

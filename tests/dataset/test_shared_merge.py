"""A merge that several processes share, or a Dask cluster reads for, has the bytes of one process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.dataset.near_search import NearSearch
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.dataset.shared_merge import merge_shared
from kgqa_hpc.dataset.sketches import band_shape
from kgqa_hpc.errors import AccountingError, CorruptFile, InputError, StoreError
from kgqa_hpc.store.results import read_result, write_result
from tests.dataset.conftest import contents
from tests.waiting import wait_for

SETTINGS = {"split": {"by": "nodes"}, "duplicates": {"exact": True, "near": 0.9}}
BANDS = band_shape(0.9)[0]
SHARE = """
import os, signal, sys
from pathlib import Path
from kgqa_hpc.dataset.shared_merge import merge_shared
from kgqa_hpc.dataset.near_search import NearSearch
from kgqa_hpc.dataset.shard_rows import ShardReader
from kgqa_hpc.store.run_folder import RunFolder
run, (fatal_read, fatal_band, fatal_write) = Path(sys.argv[1]), map(int, sys.argv[2:])
find, bands = NearSearch.find, []
def searching(self, band):
    bands.append(band)
    if len(bands) == fatal_band:
        os.kill(os.getpid(), signal.SIGKILL)
    find(self, band)
NearSearch.find = searching
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
print("wrote" if counts else "waited", len(bands))
"""


def share(run: Path, fatal_read: int = 0, fatal_band: int = 0, fatal_write: int = 0) -> subprocess.Popen[str]:
    fatal = map(str, (fatal_read, fatal_band, fatal_write))
    arguments = [sys.executable, "-c", SHARE, str(run), *fatal]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def run(make_run: Any) -> Any:
    """A finished run of 24 shards whose leases expire soon."""
    pytest.importorskip("rensa", reason="RENSA IS NOT INSTALLED")
    made = make_run(items=96, shard_size=4, dataset=SETTINGS, runtime={"lease": 2})
    made.finish()
    return made


def leftovers(run: Any) -> list[Path]:
    return list(run.folder.path.glob(".dataset.*"))


@pytest.mark.slow
def test_four_processes_of_which_two_are_killed_give_the_bytes_of_one(run: Any) -> None:
    merge(run.folder)
    alone = contents(run.folder.dataset)
    told = run.folder.dataset.rename(run.folder.path / "alone")
    killed = [share(run.folder.path, fatal_read=n) for n in (2, 3)]  # neither can read all 24 before it dies
    assert [process.wait(timeout=300) for process in killed] == [-signal.SIGKILL] * 2
    others = [share(run.folder.path) for _ in range(2)]
    said = {process.communicate(timeout=300)[0].split()[0] for process in others}
    assert "wrote" in said <= {"waited", "wrote"}  # one that begins after the end merges anew
    assert contents(run.folder.dataset) == alone == contents(told)
    assert leftovers(run) == []


@pytest.mark.slow
def test_who_plans_the_search_for_near_duplicates_and_who_helps_may_be_killed(run: Any) -> None:
    accounting = merge(run.folder)
    assert accounting.total.rejected["near duplicate"] > 0
    alone = contents(run.folder.dataset)
    # The first plans and dies in its third band, the second takes over and dies in its fifth.
    for band in (3, 5):
        assert share(run.folder.path, fatal_band=band).wait(timeout=300) == -signal.SIGKILL
        assert contents(run.folder.dataset) == alone
    others = [share(run.folder.path) for _ in range(2)]
    said = [process.communicate(timeout=300)[0].split() for process in others]
    assert "wrote" in {verb for verb, _ in said}
    assert contents(run.folder.dataset) == alone
    assert leftovers(run) == []


def test_a_process_that_waits_for_the_dataset_finds_bands_of_the_one_that_writes_it(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(run.folder)
    alone = contents(run.folder.dataset)
    helper: list[subprocess.Popen[str]] = []
    find = NearSearch.find

    def slowly(search: NearSearch, band: int) -> None:
        if not helper:  # what it is to help with is planned, and this band is leased to us
            helper.append(share(run.folder.path))
            wait_for(lambda: len(list(search.folder.glob("band-*"))) == BANDS - 1, "the help")
        find(search, band)

    monkeypatch.setattr(NearSearch, "find", slowly)
    assert merge_shared(run.folder) is not None
    assert helper[0].communicate(timeout=300)[0].split() == ["waited", str(BANDS - 1)]
    assert contents(run.folder.dataset) == alone
    assert leftovers(run) == []


def test_when_the_one_that_writes_is_killed_another_writes_and_no_other_task_is_done_again(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(run.folder)
    old = contents(run.folder.dataset)
    # 24 spools taken over, 16 of 24 written
    assert share(run.folder.path, fatal_write=40).wait(timeout=300) == -signal.SIGKILL
    assert contents(run.folder.dataset) == old
    monkeypatch.setattr(ShardReader, "write", lambda *_: pytest.fail("a shard was read again"))
    monkeypatch.setattr(NearSearch, "find", lambda *_: pytest.fail("a band was compared again"))
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
    assert b"Another one." in shared["accepted.jsonl"] + shared["rejected.jsonl"]


@pytest.mark.parametrize("suffix", ["spool", "sketch"])
def test_what_another_process_made_is_checked_before_it_is_used(run: Any, suffix: str) -> None:
    merge(run.folder)
    alone = contents(run.folder.dataset)
    assert share(run.folder.path, fatal_write=30).wait(timeout=300) == -signal.SIGKILL
    (path,) = run.folder.path.glob(f".dataset.shared-*/shard-000003.{suffix}")
    data = bytearray(path.read_bytes())
    data[-40] ^= 1  # within a text
    path.write_bytes(data)
    with pytest.raises(StoreError, match=rf"shard-000003.{suffix}: was not what was written"):
        merge_shared(run.folder)
    assert contents(run.folder.dataset) == alone
    assert merge_shared(run.folder) is not None  # made anew
    assert contents(run.folder.dataset) == alone


def test_work_that_is_left_refuses_a_shared_merge_too(make_run: Any) -> None:
    run = make_run(items=16)
    run.finish("shard-000000")
    with pytest.raises(AccountingError, match="1 of 2 shards are not done"):
        merge_shared(run.folder)


def test_a_local_dask_cluster_gives_the_bytes_of_one_process(run: Any) -> None:
    distributed = pytest.importorskip("distributed", reason="DASK IS NOT INSTALLED")
    from kgqa_hpc.dataset.dask_crew import dask_crew

    merge(run.folder)
    alone = contents(run.folder.dataset)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, dask_crew(cluster.scheduler_address) as crew:
        merge(run.folder, crew=crew)
        assert contents(run.folder.dataset) == alone
        damaged = run.folder.result("main", "shard-000005")
        damaged.write_bytes(damaged.read_bytes()[:-1])
        with pytest.raises(CorruptFile, match="shard-000005"):
            merge(run.folder, crew=crew)
    assert contents(run.folder.dataset) == alone


def test_a_site_that_says_nothing_of_its_jobs_is_told_where_to() -> None:
    dask = pytest.importorskip("dask", reason="DASK IS NOT INSTALLED")
    pytest.importorskip("dask_jobqueue", reason="DASK-JOBQUEUE IS NOT INSTALLED")
    from kgqa_hpc.dataset.dask_crew import dask_crew

    nothing = {"jobqueue.slurm.cores": None, "jobqueue.slurm.memory": None}
    with (
        dask.config.set(nothing),
        pytest.raises(InputError, match="cores and memory") as told,
        dask_crew("slurm"),
    ):
        pass
    assert "jobqueue.slurm" in told.value.cure

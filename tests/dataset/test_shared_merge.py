"""A merge that several processes share, or a Dask cluster reads for, has the bytes of one process."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc import stages
from kgqa_hpc.dataset.merge import merge, merge_shared
from kgqa_hpc.dataset.stage import Stager
from kgqa_hpc.errors import AccountingError, CorruptFile, InputError, StoreError
from kgqa_hpc.runs import change_dataset
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_result, write_result
from tests.command import kgqa
from tests.dataset.conftest import contents
from tests.runs import synthetic
from tests.store.conftest import flip

SETTINGS = {"order": "answer", "split": {"by": "nodes"}, "duplicates": {"exact": True, "near": 0.9}}
PART_BYTES = 20_000
# A process of a shared merge that kills or stops itself at its n-th shard, row group or step of progress, or at the
# end.
SHARE = """
import json, os, signal, sys
from collections import Counter
from pathlib import Path
from kgqa_hpc.dataset import merge
from kgqa_hpc.dataset import write
from kgqa_hpc.dataset.merge import merge_shared
from kgqa_hpc.dataset.stage import Stager
from kgqa_hpc.store.run_folder import RunFolder
fatal, met = json.loads(sys.argv[2]), Counter()
def watch(what):
    met[what] += 1
    if met[what] == fatal.get(what):
        os.kill(os.getpid(), getattr(signal, fatal.get("signal", "SIGKILL")))
def watched(kind, method, what):
    original = getattr(kind, method)
    def replacement(*arguments):
        watch(what)
        return original(*arguments)
    setattr(kind, method, replacement)
watched(Stager, "write", "read")
watched(write, "table_of", "lines")
watched(merge, "gather_facts", "end")
counts = merge_shared(RunFolder(Path(sys.argv[1])), progress=lambda *_: watch("step"), part_bytes=int(sys.argv[3]))
print("wrote" if counts else "waited")
"""


def share(run: Path, **fatal: int | str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", SHARE, str(run), json.dumps(fatal), str(PART_BYTES)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 24 shards whose leases expire soon, and its dataset."""
    pytest.importorskip("rensa", reason="RENSA IS NOT INSTALLED")
    folder = tmp_path_factory.mktemp("original")
    made = synthetic(folder, items=96, shard_size=4, dataset=SETTINGS, runtime={"lease": 2})
    made.merge(part_bytes=PART_BYTES)
    return made.folder.path


@pytest.fixture
def alone(original: Path) -> dict[str, bytes]:
    """Its dataset as one process made it."""
    return contents(original / "dataset")


@pytest.fixture
def merged_run(original: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(original, tmp_path / "run")))


@pytest.fixture
def run(merged_run: RunFolder) -> RunFolder:
    """The run without its dataset."""
    shutil.rmtree(merged_run.dataset)
    return merged_run


def leftovers(run: RunFolder) -> list[Path]:
    return list(run.path.glob(".dataset.*"))


def test_five_processes_of_which_two_or_three_are_killed_give_the_bytes_of_one(
    run: RunFolder, alone: dict[str, bytes]
) -> None:
    killed = [share(run.path, read=n) for n in (2, 3)]  # neither can read all 24 before it dies
    assert [process.wait(timeout=300) for process in killed] == [-signal.SIGKILL] * 2
    others = [share(run.path, lines=2), *(share(run.path) for _ in range(2))]
    said = {word for process in others for word in process.communicate(timeout=300)[0].split()[:1]}
    assert others[0].returncode in (0, -signal.SIGKILL)  # in mid part, or 0: the others were quicker
    assert [process.returncode for process in others[1:]] == [0, 0]
    assert "wrote" in said <= {"waited", "wrote"}  # one that begins after the end merges anew
    assert contents(run.dataset) == alone
    assert leftovers(run) == []


def test_when_the_one_that_writes_is_killed_another_writes_and_no_other_task_is_done_again(
    merged_run: RunFolder, alone: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = merged_run
    assert len([name for name in alone if name.endswith(".parquet")]) > 6
    # Alone, and so certainly within a part: all shards are staged, and some of the dataset is written.
    assert share(run.path, lines=3).wait(timeout=300) == -signal.SIGKILL
    assert len(list(run.path.glob(".dataset.shared-*/shard-*.parquet"))) == 24
    assert contents(run.dataset) == alone
    monkeypatch.setattr(Stager, "write", lambda *_: pytest.fail("a shard was read again"))
    assert merge_shared(run, part_bytes=PART_BYTES) is not None
    assert contents(run.dataset) == alone
    assert leftovers(run) == []


@pytest.mark.parametrize("moment", [{"read": 2}, {"lines": 2}, {"end": 1}])
def test_a_process_that_was_stopped_until_the_others_had_finished_ends_quietly_and_leaves_the_dataset_alone(
    run: RunFolder, moment: dict[str, int]
) -> None:
    """In a shard, in a part, and as the one that writes the dataset when nearly all is written."""
    stopped = share(run.path, signal="SIGSTOP", **moment)
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    assert merge_shared(run, part_bytes=PART_BYTES) is not None  # when the lease has run out
    there, dataset = run.dataset.stat().st_ino, contents(run.dataset)
    os.kill(stopped.pid, signal.SIGCONT)
    said, complained = stopped.communicate(timeout=300)
    assert (stopped.returncode, said.split()[0], complained) == (0, "waited", "")
    assert run.dataset.stat().st_ino == there
    assert contents(run.dataset) == dataset
    assert leftovers(run) == []


def test_a_result_that_is_done_anew_is_read_anew(run: RunFolder) -> None:
    assert share(run.path, step=30).wait(timeout=300) == -signal.SIGKILL
    path = run.result("main", "shard-000003")
    records = read_result(path)
    records[1]["output"]["answer"] = "Another one."
    path.unlink()
    write_result(path, records, run.origin("main").header("shard-000003", ""))
    assert merge_shared(run, part_bytes=PART_BYTES) is not None
    shared = contents(run.dataset)
    merge(run, part_bytes=PART_BYTES)
    assert contents(run.dataset) == shared
    assert b"Another one." in shared["accepted.jsonl"] + shared["rejected.jsonl"]


def test_a_staged_file_that_another_process_made_is_checked_before_it_is_used(
    merged_run: RunFolder, alone: dict[str, bytes]
) -> None:
    run = merged_run
    assert share(run.path, step=24).wait(timeout=300) == -signal.SIGKILL
    path = max(run.path.glob(".dataset.shared-*/shard-*.parquet"), key=lambda one: one.stat().st_size)
    column = pq.read_metadata(path).row_group(0)
    record = next(
        c for c in (column.column(i) for i in range(column.num_columns)) if c.path_in_schema == "record"
    )
    flip(path, record.data_page_offset + record.total_compressed_size // 2)
    with pytest.raises(StoreError, match="was not what was written there"):
        merge_shared(run, part_bytes=PART_BYTES)
    assert contents(run.dataset) == alone
    assert merge_shared(run, part_bytes=PART_BYTES) is not None  # made anew
    assert contents(run.dataset) == alone


def test_work_that_is_left_refuses_a_shared_merge_too(make_run: Any) -> None:
    made = make_run(items=16)
    made.finish("shard-000000")
    with pytest.raises(AccountingError, match="1 of 2 shards are not done"):
        merge_shared(made.folder)


def test_a_local_dask_cluster_gives_the_bytes_of_one_process(run: RunFolder, alone: dict[str, bytes]) -> None:
    distributed = pytest.importorskip("distributed", reason="DASK IS NOT INSTALLED")
    from kgqa_hpc.dataset.staging import stage_by_dask

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, stage_by_dask(cluster.scheduler_address) as stage:
        merge(run, stage=stage, part_bytes=PART_BYTES)
        assert contents(run.dataset) == alone
        damaged = run.result("main", "shard-000005")
        damaged.write_bytes(damaged.read_bytes()[:-1])
        with pytest.raises(CorruptFile, match="shard-000005"):
            merge(run, stage=stage, part_bytes=PART_BYTES)
    assert contents(run.dataset) == alone


def test_a_site_that_says_nothing_of_its_jobs_is_told_where_to() -> None:
    dask = pytest.importorskip("dask", reason="DASK IS NOT INSTALLED")
    pytest.importorskip("dask_jobqueue", reason="DASK-JOBQUEUE IS NOT INSTALLED")
    from kgqa_hpc.dataset.staging import stage_by_dask

    nothing = {"jobqueue.slurm.cores": None, "jobqueue.slurm.memory": None}
    with (
        dask.config.set(nothing),
        pytest.raises(InputError, match="cores and memory") as told,
        stage_by_dask("slurm"),
    ):
        pass
    assert "jobqueue.slurm" in told.value.cure


def test_a_merge_fails_when_another_changed_its_settings(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = stages.merge

    def late(folder: Path, **options: Any) -> Any:
        change_dataset(folder, {"order": "question"})
        return merge(folder, **options)

    monkeypatch.setattr(stages, "merge", late)
    refused = kgqa("merge", run.path, "--shared", "--set", "order=id", code=1).stderr
    assert "another merge has changed dataset:" in refused
    monkeypatch.undo()
    kgqa("merge", run.path, "--shared", "--set", "order=id")

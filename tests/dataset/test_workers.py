"""Shards read side by side give the same dataset, and what goes wrong in a worker is told by merge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from kgqa_hpc.dataset import staging
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import CorruptFile
from tests.dataset.conftest import contents, workers_of
from tests.waiting import wait_for


def test_three_workers_give_the_bytes_of_one(make_run: Any) -> None:
    run = make_run()
    run.finish()
    merge(run.folder, processes=1)
    alone = contents(run.folder.dataset)
    merge(run.folder, processes=3)
    assert contents(run.folder.dataset) == alone


def test_a_damaged_result_is_told_and_set_aside_by_whichever_worker_reads_it(make_run: Any) -> None:
    run = make_run()
    run.finish()
    for name in ("shard-000001", "shard-000004"):
        path = run.folder.result("main", name)
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptFile, match="2 results are damaged"):
        merge(run.folder, processes=2)
    assert not run.folder.dataset.exists()
    assert len(list(run.folder.quarantine.glob("*.h5"))) == 2


def test_a_merge_whose_workers_end_at_once_stages_their_shards_itself(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    run.finish()
    merge(run.folder)
    old = contents(run.folder.dataset)
    monkeypatch.setattr(staging.sys, "executable", "/bin/false")
    merge(run.folder, processes=3)
    assert contents(run.folder.dataset) == old


MERGE = """
import sys
from pathlib import Path
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.run_folder import RunFolder
merge(RunFolder(Path(sys.argv[1])), processes=2, progress=lambda done, total, label: print(done, flush=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 7, 9, 16])
def test_sigkill_leaves_the_old_dataset_and_the_next_merge_makes_the_new_one(
    make_run: Any, shards: int
) -> None:
    run = make_run()
    run.finish()
    merge(run.folder)
    old = contents(run.folder.dataset)
    child = subprocess.Popen(
        [sys.executable, "-c", MERGE, str(run.folder.path)], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert child.stdout
    for line in child.stdout:
        if int(line) >= shards:
            break
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert contents(run.folder.dataset) == old
    merge(run.folder)
    assert contents(run.folder.dataset) == old
    wait_for(lambda: not workers_of(run.folder.path), "the end of its workers")

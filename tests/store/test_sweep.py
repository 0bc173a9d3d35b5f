"""sweep: what dead processes left goes, what living ones need stays, what is corrupt is set aside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from kgqa_hpc.store import atomic, cleanup
from kgqa_hpc.store.queue import Swept, sweep
from kgqa_hpc.store.results import write_result
from kgqa_hpc.store.run_folder import RunFolder


def test_a_fresh_run_has_nothing_to_sweep(run: RunFolder) -> None:
    assert sweep(run, "main") == Swept()


def test_litter_goes_and_work_stays(cut_run: RunFolder) -> None:
    results = cut_run.results("main")
    for shard in ("shard-000000", "shard-000001"):
        write_result(
            cut_run.result("main", shard),
            [{"id": shard, "status": "accepted"}],
            cut_run.origin("main").header(shard, ""),
        )
    corrupt = cut_run.result("main", "shard-000001")
    corrupt.write_bytes(corrupt.read_bytes()[:-1])
    kept = [results / f"shard-00000{k}.w0.journal" for k in (1, 2)]
    for path in (*kept, results / "shard-000000.w0.journal", results / "shard-000000.w1.journal"):
        path.touch()
    fan = cut_run.leases("main") / "a7"
    fan.mkdir(parents=True)
    past = time.time() - 2 * cleanup.LITTER_AGE
    for folder in (cut_run.path, cut_run.shards, results, cut_run.leases("main"), fan):
        (folder / f".old{atomic.TEMP_SUFFIX}").touch()
        os.utime(folder / f".old{atomic.TEMP_SUFFIX}", (past, past))
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

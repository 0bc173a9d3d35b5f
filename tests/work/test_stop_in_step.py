"""SIGTERM ends a worker with 75 whatever its steps compute, and the run goes on to the same results.

The steps here never end by themselves: a worker that ends was interrupted, however busy the machine is.
"""

import shutil
import signal
import time
from pathlib import Path

import pytest

from kgqa_hpc.store.run_folder import RunFolder
from tests.command import kgqa
from tests.project import write_project
from tests.waiting import wait_for
from tests.work.rig import Processes, answers_made, answers_used, events, reconfigure, records, result_files

CONFIG = """
seed: 7
plugins: [holding.py]
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 6}
engine: {kind: scripted, latency: {batch: 4}}
passes: [{name: main, steps: [generate, hold, judge]}]
runtime: {shard_size: 32, commit_every: 1s, window: 4}
"""
# `hold` passes six items, then computes for ever, in the way that the variable HOLD names.
PLUGIN = '''
import os
import re
import time
from pathlib import Path

import kgqa_hpc

passed = []


def loop(item):
    while True:
        passed.append(item)
        passed.pop()


def expression(item):
    re.search("(a|aa)+$", "a" * 200 + "b")


def script(item):
    from kgqa_hpc.plugins.gasl import plan
    from kgqa_hpc.plugins.gasl.world import Bounds

    plan.BOUNDS = Bounds(work=10**15, bytes=2**60)
    lines = "FIND nodes AS v\\nADD_FIELD v FIELD: k = 1\\n" + "UPDATE v WITH v OPERATION: append\\n" * 8
    while True:
        plan.run_on(item.anchor, lines + "JOIN v WITH v ON k AS w\\nCOUNT w UNIQUE AS n\\n" * 5)


def call(item):
    time.sleep(1_000_000)


@kgqa_hpc.step(columns={"length": "int64"})
def hold(item):
    """Length of the answer."""
    if (name := os.environ.get("HOLD")) and len(passed) >= 6:
        Path(os.environ["HELD"]).touch()
        globals()[name](item)
    passed.append(item.id)
    return {"length": len(item.output["answer"])}
'''
SORTS = ("loop", "expression", "script", "call")


def prepared(folder: Path) -> RunFolder:
    folder.mkdir()
    (folder / "holding.py").write_text(PLUGIN)
    kgqa("init", write_project(folder, CONFIG, nodes=30, edges=60), folder / "run")
    for verb in ("import", "sample"):
        kgqa(verb, folder / "run")
    return RunFolder(folder / "run")


@pytest.mark.plugin("gasl")
def test_workers_amid_a_step_end_at_sigterm_and_lose_nothing(tmp_path: Path, processes: Processes) -> None:
    run = prepared(tmp_path / "held")
    calm = RunFolder(Path(shutil.copytree(run.path, tmp_path / "calm")))
    workers = {sort: processes.start(run, HOLD=sort, HELD=str(tmp_path / sort)) for sort in SORTS}
    for sort, worker in workers.items():
        wait_for(lambda: (tmp_path / sort).exists() or worker.poll() is not None, sort)  # noqa: B023
    for worker in workers.values():
        worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    for sort, worker in workers.items():
        code, output = processes.finish(worker)
        print(f"{sort}: ended after {time.monotonic() - began:.1f} s")
        assert code == 75, f"{sort}: {output}"
        assert "SIGTERM" in output
    kgqa("run", calm.path)
    kgqa("run", run.path)
    assert result_files(run) == result_files(calm)
    assert len(events(run, "interrupted")) == len(SORTS)
    assert answers_used(run) <= answers_made(run) <= answers_used(run) + 4 * len(SORTS), (
        "asked again: the window"
    )
    assert records(run)


def test_a_worker_whose_engine_never_answers_ends_at_sigterm_and_loses_nothing(
    tmp_path: Path, processes: Processes
) -> None:
    run = prepared(tmp_path / "run")
    reconfigure(run, engine={"latency": {"batch": 4, "per_request_s": 1_000_000.0}})
    worker = processes.start(run)
    wait_for(lambda: events(run, "shard-opened") or worker.poll() is not None, "a shard in work")
    worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    code, output = processes.finish(worker)
    print(f"ended after {time.monotonic() - began:.1f} s")
    assert code == 75, output
    (drained,) = events(run, "drained")
    assert drained["in_flight"] > 0
    assert drained["cancelled"] == 0, "the engine acknowledged the cancel"
    reconfigure(run, engine={"latency": {"batch": 4}})
    kgqa("run", run.path)

"""Live, stalled and dead workers, the rate of a run and its finished stages, as its small files tell them."""

import os
import time
from pathlib import Path

import pytest

from kgqa_hpc.stages import STAGES, standing
from kgqa_hpc.status.log_files import (
    ALIVE,
    HISTORY,
    STATES,
    note_progress,
    place,
    read_rate,
    read_states,
    remove_state,
    sweep_states,
    write_state,
)
from kgqa_hpc.status.render import render
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.partition import partition, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.status.conftest import done, look, state


def test_workers_are_alive_stalled_or_silent(run: RunFolder) -> None:
    write_state(run.logs, "w0", state(worker="w0", ended=1000))
    write_state(run.logs, "w1", state(worker="w1", ended=500, silent=600.0))
    write_state(run.logs, "w2", state(worker="w2"))
    old = time.time() - ALIVE - 10
    os.utime(run.logs / STATES / "w2.json", (old, old))
    now = survey(run.path)
    assert now["workers"]["alive"] == 2
    assert now["workers"]["stalled"] == ["w1"]
    assert now["workers"]["silent"] == ["w2"]
    assert "2 alive · slowest 1.50x the mean · 1 stalled (w1) · 1 without a sign of life (w2)" in render(now)


def test_a_killed_worker_of_this_machine_is_known_to_be_dead_at_once(run: RunFolder) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    write_state(run.logs, "w0", state(**place(), pid=gone))
    write_state(run.logs, "w1", state(pid=gone))
    assert [entry["age"] > ALIVE for entry in read_states(run.logs)] == [True, False]


@pytest.mark.parametrize("age_s", [0, 1000])
@pytest.mark.parametrize("name", [None, 3, ["w"], {"a": 1}])
def test_a_state_that_no_worker_wrote_is_left_out(run: RunFolder, name: object, age_s: int) -> None:
    write_state(run.logs, "other", state(worker=name, silent=1000.0))
    os.utime(run.logs / STATES / "other.json", (time.time() - age_s,) * 2)
    now = look(run)
    assert "0 alive" in render(now)
    assert now["workers"]["list"] == now["workers"]["silent"] == now["workers"]["stalled"] == []


def test_states_of_the_long_dead_are_swept(run: RunFolder) -> None:
    for name in ("w0", "w1", "w2"):
        write_state(run.logs, name, state(worker=name))
    os.utime(run.logs / STATES / "w1.json", (1, 1))
    sweep_states(run.logs)
    remove_state(run.logs, "w2")
    remove_state(run.logs, "never was")
    assert [entry["worker"] for entry in read_states(run.logs)] == ["w0"]


def test_a_complete_run_lists_no_dead_worker(run: RunFolder) -> None:
    write_state(run.logs, "w2", state(worker="w2"))
    os.utime(run.logs / STATES / "w2.json", (1, 1))
    assert survey(run.path)["workers"]["silent"] == ["w2"]
    done(run, *read_shards_manifest(run).names)
    now = look(run)
    assert (now["workers"]["silent"], now["workers"]["list"], now["shards"]["in_work"]) == ([], [], 0)


def noted(logs: Path, *notes: tuple[float, int], began: float = 0.0) -> None:
    """Write notes: seconds since the beginning, and the items that had ended."""
    for now, ended in notes:
        note_progress(logs, ended, now=began + now)


def test_rates_leave_out_the_time_nobody_worked(tmp_path: Path) -> None:
    noted(tmp_path, (0, 0), (60, 60), (120, 120), (90_000, 120), (90_060, 240))
    assert read_rate(tmp_path, now=90_061) == pytest.approx([240 / 180 * 86_400, 120 / 60 * 86_400])


def test_the_rate_is_told_a_day_and_for_the_last_hour(run: RunFolder) -> None:
    done(run, "shard-000000")
    noted(run.logs, (0, 0), (60, 30), (90_000, 30), (90_060, 90), began=time.time() - 90_060)
    assert "items     20 of 100 · 45.0 a minute" in render(survey(run.path))


def test_a_damaged_history_costs_a_note(tmp_path: Path) -> None:
    noted(tmp_path, (0, 0), (60, 60))
    with (tmp_path / HISTORY).open("ab") as file:
        file.write(b'\xff\x00\n{"time": 3}\n[1]\n{"time":')
    assert read_rate(tmp_path, now=61)[0] == pytest.approx(86_400)
    assert read_rate(tmp_path / "empty") == [None, None]


def finished(run: RunFolder) -> list[str]:
    return [stage["name"] for stage in standing(run.path)["stages"] if stage["done"]]


def test_status_names_the_stages_done_and_the_command_that_comes_next(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 40)  # of anchors alone: without a graph there is nothing to import
    assert [stage["name"] for stage in standing(run.path)["stages"]] == [stage.name for stage in STAGES]
    assert finished(run) == ["import", "sample"]
    assert "stages    import · sample done · next: kgqa run" in render(standing(run.path))
    partition(run, 20)
    run.results("main").mkdir(parents=True)
    assert finished(run) == ["import", "sample"], "work that has begun is not done"
    run.dataset.mkdir()
    assert finished(run) == ["import", "sample", "merge"], "a partial dataset does not make the work done"
    run.dataset.rmdir()
    done(run, *read_shards_manifest(run).names)
    assert "import · sample · run done · next: kgqa merge" in render(standing(run.path))
    run.dataset.mkdir()
    run.report.mkdir()
    assert "import · sample · run · merge · report done\n" in render(standing(run.path))

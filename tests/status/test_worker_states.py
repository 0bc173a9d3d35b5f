"""Live, stalled and dead workers are told apart by their state files."""

from __future__ import annotations

import os
import time

from kgqa_hpc.status.render import render
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.status.worker_states import (
    ALIVE,
    place,
    read_states,
    remove_state,
    state_file,
    sweep_states,
    write_state,
)
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from tests.status.written import assert_adds_up, done, state


def test_workers_are_alive_stalled_or_silent(run: RunFolder) -> None:
    write_state(run.logs, "w0", state(worker="w0", ended=1000))
    write_state(run.logs, "w1", state(worker="w1", ended=500, silent=600.0))
    write_state(run.logs, "w2", state(worker="w2"))
    old = time.time() - ALIVE - 10
    os.utime(state_file(run.logs, "w2"), (old, old))
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


def test_states_of_the_long_dead_are_swept(run: RunFolder) -> None:
    for name in ("w0", "w1", "w2"):
        write_state(run.logs, name, state(worker=name))
    os.utime(state_file(run.logs, "w1"), (1, 1))
    sweep_states(run.logs)
    remove_state(run.logs, "w2")
    remove_state(run.logs, "never was")
    assert [entry["worker"] for entry in read_states(run.logs)] == ["w0"]


def test_a_complete_run_lists_no_dead_worker(run: RunFolder) -> None:
    write_state(run.logs, "w2", state(worker="w2"))
    os.utime(state_file(run.logs, "w2"), (1, 1))
    assert survey(run.path)["workers"]["silent"] == ["w2"]
    done(run, *read_shards_manifest(run).names)
    now = survey(run.path)
    assert_adds_up(now)
    assert (now["workers"]["silent"], now["workers"]["list"], now["shards"]["in_work"]) == ([], [], 0)

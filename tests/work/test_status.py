"""What `kgqa status` says, on folders whose state is known."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.cluster import slurm
from kgqa_hpc.errors import InputError
from kgqa_hpc.status import history
from kgqa_hpc.status.metrics import metrics
from kgqa_hpc.status.render import WATCH_EVERY, duration, render, status, watch
from kgqa_hpc.status.tally import Tally
from kgqa_hpc.status.worker_states import (
    ALIVE,
    read_states,
    remove_state,
    state_file,
    sweep_states,
    write_state,
)
from kgqa_hpc.store.journal import Journal
from kgqa_hpc.store.partition import partition, read_shards_manifest
from kgqa_hpc.store.results import write_result
from kgqa_hpc.store.run_folder import RunFolder
from tests.work.rig import make_run

OTHER_HOST = "node-of-another-machine"


def done(run: RunFolder, *shards: str, verdict: str = "accepted") -> None:
    """Commit results in which every item ended with the same verdict."""
    for shard in shards:
        start = int(shard.rpartition("-")[2]) * 20
        rows = [{"id": f"i{start + k}", "status": verdict, "reason": None, "trace": []} for k in range(20)]
        run.results("main").mkdir(parents=True, exist_ok=True)
        assert write_result(run.result("main", shard), rows, run.origin("main").header(shard, ""))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "oregano", 100)
    partition(made, 20)
    return made


def state(**facts: Any) -> dict[str, Any]:
    base = {"worker": "w0", "host": OTHER_HOST, "pid": 1, "rank": 0, "up": 1000.0, "ended": 500}
    return {**base, "ended_open": 0, "open_shards": 1, "in_flight": 8, "silent": 0.5, **facts}


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run folder"):
        status(tmp_path / "nowhere")


def test_before_the_shards_are_cut_nothing_is_done(tmp_path: Path) -> None:
    now = status(make_run(tmp_path / "run", 5).path)
    assert not now["complete"]
    assert "kgqa run cuts them" in render(now)


def test_shards_items_and_verdicts_are_counted_from_the_results(run: RunFolder) -> None:
    done(run, "shard-000000", "shard-000003")
    done(run, "shard-000001", verdict="rejected")
    write_state(run.logs, "w0", state(ended_open=7, open_shards=2))
    now = status(run.path)
    assert now["shards"] == {"total": 5, "done": 3, "in_work": 2, "quarantined": 0}
    assert now["items"] == {"total": 100, "ended": 67}
    assert now["verdicts"] == {"accepted": 40, "rejected": 20, "waiting": 7}
    text = render(now)
    assert "shards    3 of 5 done · 2 in work · 0 quarantined" in text
    assert "items     67 of 100" in text
    assert "accepted 59.7 % · rejected 29.9 %" in text


def test_a_run_is_complete_when_every_shard_has_a_result(run: RunFolder) -> None:
    names = read_shards_manifest(run).names
    done(run, *names[:-1])
    assert not status(run.path)["complete"]
    done(run, names[-1])
    now = status(run.path)
    assert now["complete"]
    assert "100 of 100 · complete" in render(now)


def test_saved_sums_are_used_and_thrown_away_when_a_result_is_gone(run: RunFolder) -> None:
    done(run, "shard-000000", "shard-000001")
    tally = Tally("main")
    tally.refresh(run)
    names = read_shards_manifest(run).names
    again = Tally.from_dict("main", json.loads(json.dumps(tally.to_dict())), names)
    assert again == tally
    run.result("main", "shard-000000").unlink()
    again.refresh(run)
    assert again.items == 20
    assert again.counted == {"shard-000001"}


def test_a_result_with_a_damaged_header_is_not_counted(run: RunFolder) -> None:
    done(run, "shard-000000", "shard-000001")
    path = run.result("main", "shard-000001")
    path.write_bytes(path.read_bytes()[:-1])
    tally = Tally("main")
    tally.refresh(run)
    assert (tally.items, tally.corrupt) == (20, {"shard-000001"})


def test_a_damaged_status_file_is_read_past(run: RunFolder) -> None:
    done(run, "shard-000000")
    run.status_file.write_text('{"tallies": {"main": {"counted": "zz"')
    assert status(run.path)["shards"]["done"] == 1


def test_journaled_items_count_as_progress_and_headers_do_not(run: RunFolder) -> None:
    run.results("main").mkdir(parents=True)
    with Journal(run.results("main") / "shard-000000.w0.journal", {"shard": "shard-000000"}) as journal:
        assert status(run.path)["journal_bytes"] == 0
        journal.append({"id": "i0"})
        assert status(run.path)["journal_bytes"] > 0


def test_workers_are_alive_stalled_or_silent(run: RunFolder) -> None:
    write_state(run.logs, "w0", state(worker="w0", ended=1000))
    write_state(run.logs, "w1", state(worker="w1", ended=500, silent=600.0))
    write_state(run.logs, "w2", state(worker="w2"))
    old = time.time() - ALIVE - 10
    os.utime(state_file(run.logs, "w2"), (old, old))
    now = status(run.path)
    assert now["workers"]["alive"] == 2
    assert now["workers"]["stalled"] == ["w1"]
    assert now["workers"]["silent"] == ["w2"]
    assert "2 alive · slowest 1.50x the mean · 1 stalled (w1) · 1 without a sign of life (w2)" in render(now)


def test_a_killed_worker_of_this_machine_is_known_to_be_dead_at_once(run: RunFolder) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    write_state(run.logs, "w0", state(host=os.uname().nodename, pid=gone))
    assert [entry["age"] > ALIVE for entry in read_states(run.logs)] == [True]


def test_states_of_the_long_dead_are_swept(run: RunFolder) -> None:
    for name in ("w0", "w1", "w2"):
        write_state(run.logs, name, state(worker=name))
    os.utime(state_file(run.logs, "w1"), (1, 1))
    sweep_states(run.logs)
    remove_state(run.logs, "w2")
    remove_state(run.logs, "never was")
    assert [entry["worker"] for entry in read_states(run.logs)] == ["w0"]


def test_rates_leave_out_the_time_nobody_worked(tmp_path: Path) -> None:
    for now, ended in ((0, 0), (60, 60), (120, 120), (90_000, 120), (90_060, 240)):
        history.note(tmp_path, ended, now=float(now))
    speed = history.rate(tmp_path, now=90_061)
    assert speed.overall == pytest.approx(240 / 180 * 86_400)
    assert speed.last_hour == pytest.approx(120 / 60 * 86_400)


def test_the_rate_is_told_a_day_and_for_the_last_hour(run: RunFolder) -> None:
    done(run, "shard-000000")
    for now, ended in ((0, 0), (60, 30), (90_000, 30), (90_060, 90)):
        history.note(run.logs, ended, now=time.time() - 90_060 + now)
    assert "items     20 of 100 · 64,800 a day (last hour 86,400)" in render(status(run.path))


def test_watching_shows_the_run_until_it_is_complete(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [f"shard-{number:06d}" for number in range(5)]
    done(run, *shards[:2])

    def go_on(seconds: float) -> None:
        done(run, shards[2 + len(waited)])
        waited.append(seconds)

    waited: list[float] = []
    monkeypatch.setattr("kgqa_hpc.status.render.time.sleep", go_on)
    watch(run.path)
    assert waited == [WATCH_EVERY] * 3
    assert "5 of 5 done" in capsys.readouterr().out


def test_a_damaged_history_costs_a_note(tmp_path: Path) -> None:
    for now, ended in ((0, 0), (60, 60)):
        history.note(tmp_path, ended, now=float(now))
    with (tmp_path / history.NAME).open("ab") as file:
        file.write(b'\xff\x00\n{"time": 3}\n[1]\n{"time":')
    assert history.rate(tmp_path, now=61).overall == pytest.approx(86_400)
    assert history.rate(tmp_path / "empty") == history.Rate()


def test_prometheus_gets_each_number_once_with_the_runs_name(run: RunFolder) -> None:
    done(run, "shard-000000")
    text = metrics(status(run.path))
    assert 'kgqa_shards_done{run="oregano",pass="main"} 1' in text
    assert 'kgqa_items{run="oregano",verdict="accepted"} 20' in text
    samples = [line.split(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples))


def test_queue_state_is_of_this_runs_jobs_only(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(
        "#!/bin/sh\n"
        "echo '12|12|kgqa-run|RUNNING|1-02:03:04|None'\n"
        "echo '12|12_3|kgqa-run|PENDING|2:00|Dependency'\n"
        "echo '99|99|other|RUNNING|1:00|None'\n"
    )
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{squeue.parent}:{os.environ['PATH']}")
    slurm.record_job(run.logs, "12", "run")
    slurm.record_job(run.logs, "12", "run")
    assert slurm.recorded_jobs(run.logs) == ["12"]
    now = status(run.path)
    assert [job["id"] for job in now["queue"]] == ["12", "12_3"]
    assert "12 kgqa-run running, 1-02:03:04 left · 12_3 kgqa-run pending (Dependency)" in render(now)


def test_without_slurm_or_jobs_there_is_no_queue(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert slurm.queue_state(run.logs) is None
    slurm.record_job(run.logs, "12", "run")
    monkeypatch.setenv("PATH", "/nowhere")
    assert slurm.queue_state(run.logs) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40, "40 s"), (600, "10 min"), (11_100, "3 h 5 min"), (90_000, "1 day 1 h"), (250_000, "2 days 21 h")],
)
def test_durations_are_told_in_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text

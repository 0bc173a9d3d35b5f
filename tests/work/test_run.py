"""`kgqa run` as users start it: several at once, stopped, restarted, on a damaged folder."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.store.conftest import flip
from tests.work.rig import Nursery, answers_made, answers_used, events, reconfigure, records, result_files

SLOW = {"batch": 4, "per_request_s": 0.05}


def slow(**latency: Any) -> dict[str, Any]:
    return {"kind": "scripted", "latency": {**SLOW, **latency}}


@pytest.fixture
def finished(tmp_path: Path, nursery: Nursery) -> RunFolder:
    """A complete run of three shards."""
    run = make_run(tmp_path / "run", 60)
    assert nursery.code(nursery.start(run)) == 0, nursery.output()
    return run


def test_a_run_makes_a_result_of_every_shard_and_leaves_the_status_of_a_complete_run_and_no_journal(
    finished: RunFolder, nursery: Nursery
) -> None:
    assert len(records(finished)) == 60
    assert "60 of 60 items" in nursery.output()
    assert not [path for path in finished.path.rglob("*") if path.suffix in (".lease", ".journal")]
    now = json.loads(finished.status_file.read_bytes())
    assert now["complete"]
    assert now["items"] == {"total": 60, "ended": 60}
    assert sum(now["verdicts"].values()) == 60
    assert (now["verdicts"]["waiting"], now["workers"]["alive"], now["shards"]["in_work"]) == (0, 0, 0)
    assert (finished.logs / "history.jsonl").exists()
    metrics = (finished.logs / "metrics.prom").read_text()
    assert 'verdict="waiting"} 0' in metrics
    assert 'kgqa_workers_alive{run="run"} 0' in metrics


@pytest.mark.slow
def test_processes_on_a_folder_split_the_work_and_do_no_shard_twice(tmp_path: Path, nursery: Nursery) -> None:
    run = make_run(tmp_path / "run", 200, engine=slow(), runtime={"shard_size": 5, "lease": 3600})
    # Each is held in its first shard: else one that is slow to start may find nothing left.
    started = [nursery.start(run, "HOLD@1") for _ in range(3)]
    for pid in started:
        nursery.await_strike(pid)
    nursery.go()
    for pid in started:
        assert nursery.code(pid) == 0, nursery.output()
    done = Counter(entry["shard"] for entry in events(run, "shard-done"))
    assert len(done) == 40
    assert set(done.values()) == {1}
    assert len({entry["worker"] for entry in events(run, "shard-done")}) == 3
    assert answers_made(run) == answers_used(run)


@pytest.mark.slow
def test_a_signal_stops_it_with_75_and_no_answer_is_asked_for_again(tmp_path: Path, nursery: Nursery) -> None:
    """tests/cluster/test_stop.py sends each signal."""
    run = make_run(tmp_path / "run", 300, engine=slow(per_request_s=0.02), runtime={"shard_size": 50})
    assert nursery.code(nursery.start(run, "SIGTERM@20000")) == 75, nursery.output()
    assert "stopped early: SIGTERM" in nursery.output()
    assert not list(run.path.rglob("*.lease")), "leases are given back, not left to expire"
    reconfigure(run, engine={"latency": {"batch": 8}})
    assert nursery.code(nursery.start(run)) == 0, nursery.output()
    assert len(records(run)) == 300
    assert answers_made(run) == answers_used(run)


def test_a_time_limit_stops_it_before_the_limit(tmp_path: Path, nursery: Nursery) -> None:
    run = make_run(
        tmp_path / "run", 200, engine=slow(per_request_s=1), runtime={"time_limit": 4, "margin": 1}
    )
    assert nursery.code(nursery.start(run)) == 75
    assert "of the time limit" in nursery.output()
    reconfigure(run, runtime={"time_limit": None}, engine={"latency": {"batch": 8}})
    assert nursery.code(nursery.start(run)) == 0
    assert len(records(run)) == 200


def test_a_complete_run_is_left_alone(finished: RunFolder, nursery: Nursery) -> None:
    before = result_files(finished)
    assert nursery.code(nursery.start(finished)) == 0
    assert result_files(finished) == before
    assert len(events(finished, "engine-started")) == 1, "no engine is started for nothing"


@pytest.mark.parametrize(
    ("file", "position"),
    [
        ("results/main/shard-000001.h5", 100),
        ("results/main/shard-000001.h5", -1),
        ("shards/shard-000002.h5", -5),
    ],
)
def test_a_damaged_result_or_shard_is_set_aside_and_made_again(
    finished: RunFolder, nursery: Nursery, file: str, position: int
) -> None:
    before = result_files(finished)
    flip(finished.path / file, position)
    if file.startswith("shards"):
        finished.result("main", Path(file).stem).unlink()  # else nobody reads the shard
    assert nursery.code(nursery.start(finished)) == 0, nursery.output()
    assert result_files(finished) == before
    assert len(list(finished.quarantine.glob("*.reason.json"))) == 1


@pytest.mark.slow
def test_two_passes_follow_each_other_and_a_lost_result_of_the_first_is_made_again(
    tmp_path: Path, nursery: Nursery
) -> None:
    passes = [{"name": "ask", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
    one = make_run(tmp_path / "one", 60)
    two = make_run(tmp_path / "two", 60, passes=passes)
    assert nursery.code(nursery.start(one)) == 0, nursery.output()
    assert nursery.code(nursery.start(two)) == 0, nursery.output()
    assert {record["status"] for record in records(two, "ask").values()} == {"open"}
    assert records(two, "check") == records(one), "cut into passes, the work is the same"

    two.result("check", "shard-000001").unlink()
    flip(two.result("ask", "shard-000001"), -1)
    assert nursery.code(nursery.start(two)) == 0, nursery.output()
    assert records(two, "check") == records(one)
    assert survey(two.path)["complete"]

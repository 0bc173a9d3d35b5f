"""Nothing is lost and nothing doubled, whoever is killed, whenever, however often (tests/chaos: and stopped).

The uninterrupted run is the measure: the results of a tormented one equal it byte for byte, file by file.
"""

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run
from tests.waiting import wait_for
from tests.work.rig import (
    Nursery,
    answers_kept,
    engine_of,
    events,
    reconfigure,
    records,
    result_files,
    seeded,
)

ITEMS = 400
KILLS = 40
FAULTS = {"garbage": 0.04, "truncate": 0.02, "error": 0.02}
SLOW = {"batch": 4, "per_request_s": 0.1, "jitter": 0.5}
FAST = {"batch": 32}

SHARDS = ITEMS // 20


def run_with(folder: Path, latency: dict[str, float], items: int = ITEMS, lease: float = 3.0) -> RunFolder:
    return make_run(
        folder,
        items,
        engine={"kind": "scripted", "latency": latency, "faults": FAULTS},
        runtime={"shard_size": 20, "commit_every": 0.5, "lease": lease},
    )


def finish(nursery: Nursery, run: RunFolder, processes: int = 2) -> None:
    for pid in [nursery.start(run) for _ in range(processes)]:
        assert nursery.code(pid) == 0, nursery.output()[-2000:]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of the same run when nobody is killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    nursery = Nursery(folder / "output.log")
    try:
        run = run_with(folder / "run", FAST)
        finish(nursery, run, 1)
    finally:
        nursery.end()
    assert len(records(run)) == ITEMS
    return result_files(run)


def complete(run: RunFolder) -> bool:
    return len(list(run.results("main").glob("*.h5"))) == SHARDS


def kill(nursery: Nursery, run: RunFolder, pid: int) -> None:
    """Kill a worker and await its end; of a complete run it may have ended by itself before that."""
    nursery.kill(pid)
    code = nursery.code(pid)
    assert code == -signal.SIGKILL or (code == 0 and complete(run)), f"{code}: {nursery.output()[-2000:]}"


def see_answers(run: RunFolder, times: int, or_else: Callable[[], bool]) -> None:
    """Wait until so many times new answers were written to the disk."""
    for _ in range(times):
        before = answers_kept(run)
        wait_for(lambda before=before: answers_kept(run) != before or or_else(), "progress")


@pytest.mark.slow
def test_after_40_kills_at_random_moments_the_results_are_those_of_the_undisturbed_run(
    tmp_path: Path, nursery: Nursery, undisturbed: dict[str, bytes]
) -> None:
    chance = seeded()
    runs = [run_with(tmp_path / "run", SLOW)]
    kills = 0
    wanted = 2
    while kills < KILLS:
        if complete(runs[-1]):  # before its torment was: go on with another
            runs.append(run_with(tmp_path / f"run-{len(runs)}", SLOW))
        run = runs[-1]
        while len(nursery.look()) < wanted:
            nursery.start(run)
        # A moment is a number of answers kept, not a time: so a busy machine does not change what is tested.
        see_answers(run, chance.randrange(6), lambda: not nursery.look())
        alive = sorted(nursery.look())
        if not alive:
            continue
        pid, victim = chance.choice(alive), chance.choice(["worker", "engine", "both"])
        if victim != "worker":
            if (engine := engine_of(pid)) is None:
                continue
            with suppress(psutil.NoSuchProcess):
                engine.kill()
        kills += 1
        if victim != "engine":
            kill(nursery, run, pid)
            wanted = chance.choice([number for number in (1, 2, 3) if number != wanted])
            for surplus in sorted(nursery.look())[wanted:]:
                kill(nursery, run, surplus)
    for pid in sorted(nursery.look()):
        kill(nursery, runs[-1], pid)
    for run in runs:
        reconfigure(run, engine={"latency": FAST})
        finish(nursery, run)
        assert result_files(run) == undisturbed
        assert not list(run.results("main").glob("*.journal"))


@pytest.mark.slow
def test_a_worker_that_slept_beyond_its_lease_harms_nothing_when_it_wakes_up(
    tmp_path: Path, nursery: Nursery, undisturbed: dict[str, bytes]
) -> None:
    run = run_with(tmp_path / "run", SLOW, lease=2.0)
    sleeper = nursery.start(run, "SIGSTOP@30000")
    nursery.await_strike(sleeper)
    wait_for(lambda: psutil.Process(sleeper).status() == psutil.STATUS_STOPPED, "its sleep")
    reconfigure(run, engine={"latency": FAST})
    finish(nursery, run)
    nursery.kill(sleeper, signal.SIGCONT)
    assert nursery.code(sleeper) == 0, nursery.output()[-2000:]
    assert result_files(run) == undisturbed


def test_an_item_that_kills_the_engine_fails_and_all_others_live(tmp_path: Path, nursery: Nursery) -> None:
    run = make_run(
        tmp_path / "run",
        300,
        engine={"kind": "scripted", "latency": {"batch": 8}, "faults": {"poison": 0.004}},
        runtime={"shard_size": 100, "item_engine_deaths": 2},
    )
    finish(nursery, run, 1)
    found = records(run)
    assert len(found) == 300
    failed = [record for record in found.values() if record["status"] == "failed"]
    assert failed, "no item was poisonous: choose another share"
    assert {record["reason"].partition(": ")[2] for record in failed} == {"engine died"}
    assert len(failed) < 10


def test_an_engine_that_hangs_is_killed_and_its_items_asked_again(tmp_path: Path, nursery: Nursery) -> None:
    run = make_run(
        tmp_path / "run",
        60,
        engine={"kind": "scripted", "latency": {"batch": 8}, "faults": {"hang": 0.03}},
        # Where an engine is slow for a second it is killed as well: that must not use up anybody's deaths.
        runtime={"shard_size": 20, "engine_stall": 1.0, "item_engine_deaths": 1000, "engine_restarts": 1000},
    )
    finish(nursery, run, 1)
    assert {record["status"] for record in records(run).values()} <= {"accepted", "rejected"}
    assert events(run, "engine-died"), "no request hung: choose another share"

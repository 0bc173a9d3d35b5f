"""The scripts of slurm/ and `kgqa submit` on a real Slurm with two virtual nodes."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kgqa_hpc.store.partition import load_shard, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from tests.cluster.conftest import PATIENCE, ROOT, Place, Slurm, dataset, make_place, needs_slurm, quicken
from tests.waiting import wait_for
from tests.work.rig import answers_kept, answers_made, answers_used, events, reconfigure, records, seeded

pytestmark = [needs_slurm, pytest.mark.cluster, pytest.mark.slow]

SUBMIT = ["--cpus=1", "--memory=500M", "--graph-cpus=1", "--graph-memory=500M", "--time=10m", "--json"]
LEASE = 3.0  # s; of the chaos
ARRAY = ["--cpus-per-task=1", "--mem=500M", "--gpus-per-task=1"]


@pytest.fixture
def place(tmp_path: Path, slurm: Slurm) -> Place:
    return make_place(tmp_path / "here", slurm.environ)


def jobs_of(output: str) -> dict[str, str]:
    return dict(line.split()[:2] for line in output.splitlines() if not line.startswith("now:"))


def test_the_pipeline_with_mpi_on_two_nodes_makes_the_dataset_of_the_local_run(
    place: Place, slurm: Slurm, undisturbed: dict[str, bytes]
) -> None:
    output = place(
        ROOT / "slurm" / "pipeline.sh",
        place.config(0.02),
        "oregano",
        *["--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1", "--mem=500M"],
        KGQA_SBATCH="--cpus-per-task=1 --mem=500M",
        KGQA_GPUS_PER_WORKER="1",
    )
    jobs = jobs_of(output)
    slurm.wait(jobs["merge"])
    run = place.run("oregano")
    assert dataset(run) == undisturbed
    started = events(run, "started")
    assert sorted(entry["rank"] for entry in started) == [0, 1, 2, 3]
    assert {entry["launcher"] for entry in started} == {"mpi"}
    assert sorted((entry["local_rank"], entry["gpus"]) for entry in started) == [
        (0, "0"),
        (0, "0"),
        (1, "1"),
        (1, "1"),
    ], "one GPU per rank of a node"
    assert all(0 < entry["deadline"] <= 2 * 86_400 for entry in started), "every rank knows the job's end"
    assert answers_made(run) == answers_used(run), "nothing was asked twice"


def test_the_pipeline_as_a_job_array_makes_the_same(
    place: Place, slurm: Slurm, undisturbed: dict[str, bytes]
) -> None:
    output = place(
        ROOT / "slurm" / "pipeline.sh",
        place.config(0.02),
        "oregano",
        *["--array=0-2", *ARRAY],
        KGQA_RUN="array",
        KGQA_SBATCH="--cpus-per-task=1 --mem=500M",
    )
    slurm.wait(jobs_of(output)["merge"])
    run = place.run("oregano")
    assert dataset(run) == undisturbed
    assert sorted(entry["rank"] for entry in events(run, "started")) == [0, 1, 2]
    assert answers_made(run) == answers_used(run)


def test_the_documented_rehearsal_works_as_it_is_written(place: Place, slurm: Slurm) -> None:
    page = (ROOT / "docs" / "guide" / "cluster.md").read_text(encoding="utf-8")
    block = page.partition("## Trying it without a cluster")[2].split("```")[1]
    commands = (
        block.partition("slurm_sandbox env")[2].partition("\n")[2].partition("tools/slurm_sandbox stop")[0]
    )
    assert "slurm/pipeline.sh" in commands
    for name in ("slurm", "configs"):
        (place.folder / name).symlink_to(ROOT / name)
    slurm.wait(jobs_of(place("bash", "-ec", commands))["merge"])
    run = place.run("runs/rehearsal")
    assert dataset(run)
    assert {log.name.rpartition("-")[0] for log in run.logs.glob("*.log")} == {
        "kgqa-graphlets",
        "kgqa-run",
        "kgqa-merge",
    }


def test_of_a_chain_with_a_job_too_large_for_the_nodes_nothing_stays_in_the_queue(
    place: Place, slurm: Slurm
) -> None:
    with pytest.raises(AssertionError, match="sbatch refused the job merge"):
        place(
            ROOT / "slurm" / "pipeline.sh",
            place.config(0.02),
            "oregano",
            *ARRAY,
            KGQA_RUN="array",
            KGQA_SBATCH="--cpus-per-task=1 --mem=500M",
            KGQA_SBATCH_MERGE="--mem=900G",
        )
    wait_for(lambda: not place("squeue", "--noheader").strip(), "an empty queue")


def test_kgqa_submit_makes_the_same_and_status_shows_its_jobs(
    place: Place, slurm: Slurm, undisturbed: dict[str, bytes]
) -> None:
    place.kgqa("init", place.config(0.02), "oregano")
    slurm("scontrol", "update", "partitionname=debug", "state=down")  # none ends before one has looked
    try:
        jobs = json.loads(place.kgqa("submit", "oregano", "--workers=3", *SUBMIT))
        queue = json.loads(place.kgqa("status", "oregano", "--json"))["queue"]
    finally:
        slurm("scontrol", "update", "partitionname=debug", "state=up")
    assert [job["name"] for job in jobs] == ["kgqa-graphlets", "kgqa-run", "kgqa-merge"]
    assert {job["name"] for job in queue} == {"kgqa-graphlets", "kgqa-run", "kgqa-merge"}
    slurm.wait(jobs[-1]["job"])
    assert dataset(place.run("oregano")) == undisturbed


def test_a_submitted_job_that_is_told_to_stop_drains_requeues_and_finishes(
    place: Place, slurm: Slurm
) -> None:
    run = place.prepared(2.5)  # ten minutes
    work = json.loads(place.kgqa("submit", "oregano", *SUBMIT))[0]["job"]
    wait_for(lambda: answers_kept(run) > 5_000, "answers")
    quicken(run, 0)  # for the next start
    slurm("scancel", "--signal=USR2", work)
    wait_for(lambda: slurm.restarts(work) == 1, "the requeue")
    slurm.wait(work)
    # Slurm warns every process of the step with USR2, and submitit's answer to it warns the worker with USR1. Where
    # both are pending when the worker next runs Python code, the lower number is handled first.
    assert [entry["reason"] in ("SIGUSR1", "SIGUSR2") for entry in events(run, "drained")] == [True]
    assert answers_made(run) == answers_used(run), "nothing was asked twice"


def test_a_real_time_limit_is_noticed_the_job_requeues_itself_and_finishes(
    place: Place, slurm: Slurm
) -> None:
    run = place.prepared(2.5)  # ten minutes
    script = str(ROOT / "slurm" / "run_array.sbatch")
    job = place(
        *["sbatch", "--parsable", "--array=0", "--time=2", "--signal=B:USR1@50", *ARRAY, script, "oregano"]
    ).strip()
    wait_for(lambda: answers_kept(run) > 5_000, "answers")
    quicken(run, 0)  # for the next start
    slurm.wait(job)
    assert slurm.restarts(job) >= 1
    first = events(run, "drained")[0]
    assert first["reason"] == "SIGUSR1" or "time limit" in first["reason"]
    assert len(records(run)) == sum(len(shard) for shard in shards(run))
    assert answers_made(run) == answers_used(run), "nothing was asked twice"
    assert "back into the queue" in next(place.folder.glob("kgqa-run-*.log")).read_text()


def test_a_second_start_without_progress_is_the_last(place: Place, slurm: Slurm) -> None:
    run = place.prepared(3600)
    reconfigure(run, runtime={"time_limit": 8, "margin": 2})  # stops itself before the first answer
    script = str(ROOT / "slurm" / "run_array.sbatch")
    job = place(*["sbatch", "--parsable", "--array=0", *ARRAY, script, "oregano"]).strip()
    slurm.wait(job, "FAILED")
    assert slurm.restarts(job) == 1
    assert "made no progress (exit code 75)" in next(place.folder.glob("kgqa-run-*.log")).read_text()


def test_a_start_that_fails_at_once_is_the_last(place: Place, slurm: Slurm) -> None:
    run = place.prepared(0)
    run.config_file.write_text(run.config_file.read_text().replace("accept: 0.9", "accept: 0.8"))
    script = str(ROOT / "slurm" / "run_array.sbatch")
    job = place(*["sbatch", "--parsable", "--array=0", *ARRAY, script, "oregano"]).strip()
    slurm.wait(job, "FAILED")
    assert slurm.restarts(job) == 0
    assert "0.9 → 0.8" in next(place.folder.glob("kgqa-run-*.log")).read_text()


def test_kills_stops_requeues_and_changing_numbers_leave_the_same_dataset(
    place: Place, slurm: Slurm, undisturbed: dict[str, bytes]
) -> None:
    chance = seeded()
    run = place.prepared(2.5, lease=LEASE)  # ten minutes of one worker's time: it outlasts the chaos
    script = str(ROOT / "slurm" / "run_array.sbatch")
    jobs: list[str] = []
    asleep: list[tuple[int, float]] = []  # processes, and when they may wake: past their leases
    again: set[str] = set()  # jobs that were put back
    rounds = 0
    while rounds < 45 and not complete(run):
        rounds += 1
        number = chance.choice([1, 2, 3])
        jobs.append(
            place(*["sbatch", "--parsable", f"--array=0-{number - 1}", *ARRAY, script, "oregano"]).strip()
        )
        kept = answers_kept(run)
        wait_for(lambda kept=kept: answers_kept(run) != kept or complete(run), "progress")
        asleep = wake(asleep)
        for job in again:
            slurm.hurry(job)
        match chance.choice(["kill", "stop", "requeue", "cancel"]):
            case "kill":
                hit(run, signal.SIGKILL, chance)
            case "stop":
                asleep += [(pid, time.monotonic() + 2 * LEASE) for pid in hit(run, signal.SIGSTOP, chance)]
            case "requeue":
                again = {chance.choice(jobs)}
                place("scontrol", "requeue", *again, check=False)  # refused while it is pending
            case "cancel":
                slurm("scancel", jobs.pop(chance.randrange(len(jobs))))
        time.sleep(chance.uniform(0, 1))
    while asleep := wake(asleep):
        time.sleep(0.1)
    quicken(run, 0, lease=LEASE)
    for job in jobs:
        slurm("scancel", job)
    last = place(*["sbatch", "--parsable", "--array=0-1", *ARRAY, script, "oregano"]).strip()
    slurm.wait(last)
    place.kgqa("merge", "oregano")
    assert dataset(run) == undisturbed
    assert rounds > 3


def complete(run: RunFolder) -> bool:
    if not run.shards_manifest.exists():
        return False  # nobody has cut it into shards yet
    done = {path.stem for path in run.results("main").glob("*.h5")}
    return done >= set(read_shards_manifest(run).names)


def wake(asleep: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Let those go on whose time has come; the others."""
    now = time.monotonic()
    for pid, when in asleep:
        if when <= now:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    return [(pid, when) for pid, when in asleep if when > now]


def hit(run: RunFolder, number: signal.Signals, chance: random.Random) -> list[int]:
    """Signal one worker that is at work; its process id."""
    pids = [entry["pid"] for entry in events(run, "started")]
    alive = [pid for pid in pids if is_worker(pid)]
    if not alive:
        return []
    pid = chance.choice(alive)
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return [pid]


def is_worker(pid: int) -> bool:
    """Whether it lives, and its number is not another's by now."""
    with suppress(OSError):
        return b"oregano" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def shards(run: RunFolder) -> list[list[str]]:
    manifest = read_shards_manifest(run)
    return [[row["id"] for row in load_shard(run, manifest, name)] for name in manifest.names]


def test_missing_variables_print_the_line_to_type(place: Place) -> None:
    import subprocess

    scripts = "graphlets.sbatch run_mpi.sbatch run_array.sbatch run_large.sbatch merge.sbatch pipeline.sh"
    for name in scripts.split():
        done = subprocess.run(
            ["bash", ROOT / "slurm" / name],
            capture_output=True,
            text=True,
            env=place.environ,
            timeout=PATIENCE,
        )
        assert done.returncode != 0
        assert f"slurm/{name}" in done.stderr

"""The scripts of slurm/ and `kgqa submit` on a real Slurm with two virtual nodes."""

import json
import os
import random
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from tests.cluster.conftest import ROOT, Place, Slurm, dataset, make_place, needs_slurm, quicken
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


def pipeline(place: Place, *options: str, run: str = "oregano", **variables: str) -> dict[str, str]:
    """The jobs that slurm/pipeline.sh submits."""
    script = ROOT / "slurm" / "pipeline.sh"
    variables = {"KGQA_SBATCH": "--cpus-per-task=1 --mem=500M", **variables}
    return jobs_of(place(script, place.config(0.02), run, *options, **variables))


def array(place: Place, tasks: int, *options: str) -> str:
    """The job of an array of workers."""
    script = str(ROOT / "slurm" / "run_array.sbatch")
    command = ["sbatch", "--parsable", f"--array=0-{tasks - 1}", *options, *ARRAY, script, "oregano"]
    return place(*command).strip()


def log_of(place: Place) -> str:
    return next(place.folder.glob("kgqa-run-*.log")).read_text()


def test_the_pipeline_with_mpi_on_two_nodes_makes_the_dataset_of_the_local_run(
    place: Place, slurm: Slurm, undisturbed: dict[str, bytes]
) -> None:
    ranks = ["--nodes=2", "--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1", "--mem=500M"]
    slurm.wait(pipeline(place, *ranks, KGQA_GPUS_PER_WORKER="1")["merge"])
    run = place.run("oregano")
    assert dataset(run) == undisturbed
    started = events(run, "started")
    assert sorted(entry["rank"] for entry in started) == [0, 1, 2, 3]
    assert {entry["launcher"] for entry in started} == {"mpi"}
    gpus = sorted((entry["local_rank"], entry["gpus"]) for entry in started)
    assert gpus == [(0, "0"), (0, "0"), (1, "1"), (1, "1")], "one GPU per rank of a node"
    assert all(0 < entry["deadline"] <= 2 * 86_400 for entry in started), "every rank knows the job's end"
    assert answers_made(run) == answers_used(run), "nothing was asked twice"
    logs = {log.name.rpartition("-")[0] for log in run.logs.glob("*.log")}
    assert logs == {"kgqa-graphlets", "kgqa-run", "kgqa-merge"}


def test_a_path_with_blanks_and_what_slurm_reads_as_a_pattern_has_its_logs_and_its_dataset(
    place: Place, slurm: Slurm
) -> None:
    name = "runs/100%j of a.sbatch"
    slurm.wait(pipeline(place, *ARRAY, "--array=0", run=name, KGQA_RUN="array")["merge"])
    run = place.run(name)
    assert len(list(run.logs.glob("*.log"))) == 3
    assert run.dataset.exists()
    with pytest.raises(AssertionError, match="submitit reads % in paths"):
        place.kgqa("submit", name, *SUBMIT)


def test_of_a_chain_with_a_job_too_large_nothing_stays_in_the_queue(place: Place, slurm: Slurm) -> None:
    with pytest.raises(AssertionError, match=r"(?s)sbatch refused the job merge.*KGQA_SBATCH_MERGE"):
        pipeline(place, *ARRAY, KGQA_RUN="array", KGQA_SBATCH_MERGE="--mem=900G")
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


def test_a_submitted_job_told_to_stop_drains_requeues_and_finishes(place: Place, slurm: Slurm) -> None:
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


def test_at_a_real_time_limit_the_job_requeues_itself_and_finishes(place: Place, slurm: Slurm) -> None:
    run = place.prepared(2.5)  # ten minutes
    job = array(place, 1, "--time=1", "--signal=B:USR1@25")
    wait_for(lambda: answers_kept(run) > 5_000, "answers")
    quicken(run, 0)  # for the next start
    slurm.wait(job)
    assert slurm.restarts(job) >= 1
    first = events(run, "drained")[0]
    assert first["reason"] == "SIGUSR1" or "time limit" in first["reason"]
    assert len(records(run)) == read_shards_manifest(run).items
    assert answers_made(run) == answers_used(run), "nothing was asked twice"
    assert "back into the queue" in log_of(place)


def test_a_second_start_without_progress_is_the_last(place: Place, slurm: Slurm) -> None:
    run = place.prepared(3600)
    reconfigure(run, runtime={"time_limit": 8, "margin": 2})  # stops itself before the first answer
    job = array(place, 1)
    slurm.wait(job, "FAILED")
    assert slurm.restarts(job) == 1
    assert "made no progress (exit code 75)" in log_of(place)


def test_kills_stops_requeues_and_changing_numbers_leave_the_same_dataset(
    place: Place, slurm: Slurm, undisturbed: dict[str, bytes]
) -> None:
    chance = seeded()
    run = place.prepared(2.5, lease=LEASE)  # ten minutes of one worker's time: it outlasts the chaos
    jobs: list[str] = []
    asleep: list[tuple[int, float]] = []  # processes, and when they may wake: past their leases
    again: set[str] = set()  # jobs that were put back
    actions = ["kill", "stop", "requeue", "cancel"] * 3
    chance.shuffle(actions)
    while actions and not complete(run):
        jobs.append(array(place, chance.choice([1, 2, 3])))
        kept = answers_kept(run)
        wait_for(lambda kept=kept: answers_kept(run) != kept or complete(run), "progress")
        asleep = wake(asleep)
        for job in again:
            slurm.hurry(job)
        match actions.pop():
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
    slurm.wait(array(place, 2))
    place.kgqa("merge", "oregano")
    assert dataset(run) == undisturbed
    assert len(actions) < 9


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


def test_missing_variables_print_the_line_to_type(place: Place) -> None:
    scripts = "graphlets.sbatch run_mpi.sbatch run_array.sbatch run_large.sbatch merge.sbatch pipeline.sh"
    for name in scripts.split():
        with pytest.raises(AssertionError, match=rf"(?s)\n.*slurm/{name}"):
            place("bash", ROOT / "slurm" / name)


def test_every_command_of_the_cluster_tutorial_runs(place: Place, slurm: Slurm) -> None:
    """docs/tutorial/2-cluster.md is true: its commands run in order, in one folder; the guide has the same pipeline."""
    page = ROOT / "docs" / "tutorial" / "2-cluster.md"
    pipeline = "slurm/pipeline.sh configs/scripted.yaml runs/rehearsal --array=0-1"
    assert all(pipeline in text.read_text("utf-8") for text in (page, ROOT / "docs" / "guide" / "cluster.md"))
    for name in ("slurm", "configs"):
        (place.folder / name).symlink_to(ROOT / name)
    before, after = (
        "\n".join(re.findall(r"^```bash\n(.*?)^```$", part, flags=re.MULTILINE | re.DOTALL))
        for part in page.read_text("utf-8").split("<!-- the tests wait for the jobs here -->")
    )
    head = f"kgqa() {{ '{sys.executable}' -m kgqa_hpc -q \"$@\"; }}\nset -euo pipefail\n"
    output = place("bash", "-c", head + before)
    lines = "\n".join(line for line in output.splitlines() if re.match(r"(graphlets|run|merge) +\d+", line))
    slurm.wait(jobs_of(lines)["merge"])
    assert "· complete" in place("bash", "-c", head + after)
    assert (place.folder / "upload" / "README.md").exists()
    assert not (place.run("runs/rehearsal").path / "logs").exists()

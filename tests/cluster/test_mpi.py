"""Four real MPI ranks: any of them may die, and nothing is lost.

With `--with-ft ulfm` the survivors finish the run. Without it the launcher ends them all, and the same
command goes on where they stopped. Ranks are killed by their ids, while each is held before its first result
(tests/held.py).
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from tests.cluster.conftest import (
    BIN,
    MPIEXEC,
    PATIENCE,
    Place,
    clean_environment,
    dataset,
    make_place,
    needs_mpi,
    quicken,
    wait_for,
)
from tests.command import end_tree, programs
from tests.held import held
from tests.work.rig import answers_kept, events, records

pytestmark = [needs_mpi, pytest.mark.cluster, pytest.mark.slow]

AS_ROOT = {f"{name}_ALLOW_RUN_AS_ROOT{more}": "1" for name in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}
FAULT_TOLERANT = ["--with-ft", "ulfm"]


def test_no_rank_of_a_job_is_tied_to_one_core(tmp_path: Path) -> None:
    """Open MPI ties one or two ranks on a node to a core each: an engine's threads would all share it."""
    script = (Path(__file__).parents[2] / "slurm" / "run_mpi.sbatch").read_text()
    (options,) = re.findall(r"\$\{KGQA_MPI_OPTIONS-(.*?)\}", script)
    told = [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"]
    place = Place(tmp_path, clean_environment() | AS_ROOT)
    cores = place(MPIEXEC, *options.split(), "-n", "1", *told)
    assert cores.split() == [str(len(os.sched_getaffinity(0)))]


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path / "here", clean_environment())


@pytest.fixture
def start(place: Place) -> Iterator[Start]:
    """start(*options, **variables): mpiexec with four ranks of `kgqa run`, stopped when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def begin(*options: str, **extra: str) -> subprocess.Popen[str]:
        command = [MPIEXEC, *options, "--map-by", ":OVERSUBSCRIBE", "-n", "4", "kgqa", "run", "oregano"]
        how = {"cwd": place.folder, "env": {**place.environ, **AS_ROOT, **extra}, "text": True}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how))
        return started[-1]

    yield begin
    for process in started:
        end_tree(process)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


def pids(run: RunFolder) -> dict[int, int]:
    """Process ids by rank, once all four work."""
    wait_for(lambda: len(events(run, "shard-opened")) >= 4 and len(events(run, "started")) == 4, "four ranks")
    wait_for(lambda: len({e["worker"] for e in events(run, "shard-opened")}) == 4, "work for every rank")
    return {entry["rank"]: entry["pid"] for entry in events(run, "started")}


def total(run: RunFolder) -> int:
    return read_shards_manifest(run).items


def assert_merged(place: Place, run: RunFolder, undisturbed: dict[str, bytes], words: str) -> None:
    """All items are done, and their dataset is that of one process."""
    assert len(records(run)) == total(run), words
    place.kgqa("merge", "oregano")
    assert dataset(run) == undisturbed


def go_on(place: Place) -> None:
    """Let ranks that are held commit."""
    (place.folder / "hold" / "go").touch()


@pytest.mark.parametrize("victims", [[], [0, 3]], ids=["none", "rank-0-and-another"])
def test_four_ranks_share_a_run_and_survivors_of_killed_ranks_finish_it(
    place: Place, start: Start, undisturbed: dict[str, bytes], victims: list[int]
) -> None:
    run = place.prepared(0.05, lease=2 if victims else 60)
    ranks = start(*FAULT_TOLERANT, **held(place.folder / "hold"))
    ids = pids(run)
    for rank in victims:
        os.kill(ids[rank], signal.SIGKILL)
    go_on(place)
    code, output = finish(ranks)
    assert_merged(place, run, undisturbed, f"exit code {code}: {output}")
    if not victims:
        assert code == 0, output
        done = events(run, "shard-done")
        assert len({entry["shard"] for entry in done}) == len(done), "a shard was done twice"
        assert len({entry["worker"] for entry in done}) == 4


def test_a_rank_that_raises_harms_nobody_where_ranks_may_die(
    place: Place, start: Start, undisturbed: dict[str, bytes]
) -> None:
    run = place.prepared(0.05, lease=2)
    ranks = start(*FAULT_TOLERANT, **held(place.folder / "hold", SABOTAGED_RANK="2"))
    wait_for((place.folder / "hold" / "raised").exists, "the failure")
    go_on(place)
    code, output = finish(ranks)
    assert code != 0, "the failure is told"
    assert "nobody expects this" in output
    assert_merged(place, run, undisturbed, output)


def test_without_fault_tolerance_all_end_soon_and_the_next_start_completes_the_run(
    place: Place, start: Start, undisturbed: dict[str, bytes]
) -> None:
    run = place.prepared(0.05, lease=2)
    ranks = start(**held(place.folder / "hold"))
    os.kill(pids(run)[1], signal.SIGKILL)
    code, output = finish(ranks)
    assert code != 0, output
    assert len(records(run)) < total(run), "they were ended, they did not finish"
    ids = [entry["pid"] for entry in events(run, "started")]
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in ids), "the end of every rank")
    quicken(run, 0, lease=2)
    ranks = start(*FAULT_TOLERANT)
    code, output = finish(ranks)
    assert code == 0, output
    assert_merged(place, run, undisturbed, output)


def test_a_warning_to_mpiexec_reaches_every_rank_and_all_drain(place: Place, start: Start) -> None:
    run = place.prepared(0.05)
    ranks = start(*FAULT_TOLERANT, **held(place.folder / "hold"))
    pids(run)
    wait_for(lambda: answers_kept(run) > 20_000, "answers")
    ranks.send_signal(signal.SIGUSR1)
    code, output = finish(ranks)
    assert code == 75, output
    assert "\nstopped early: SIGUSR1" in f"\n{output}", "not printed as an error"
    assert {entry["reason"] for entry in events(run, "drained")} == {"SIGUSR1"}
    assert len(events(run, "drained")) == 4
    made = sum(entry["answers"] for entry in events(run, "pass-left"))
    quicken(run, 0, lease=2)
    place.kgqa("run", "oregano")
    made += events(run, "pass-left")[-1]["answers"]
    assert made == sum(len(record["trace"]) for record in records(run).values()), "nothing was asked twice"


def test_ranks_that_see_different_folders_are_refused(place: Place, start: Start) -> None:
    run = place.prepared(0)
    other = make_place(place.folder.parent / "elsewhere", clean_environment())
    other.prepared(0)
    shim = f'[ "$OMPI_COMM_WORLD_RANK" = 3 ] && cd {other.folder}\nexec {BIN / "kgqa"} "$@"'
    programs(place.folder, kgqa=shim)
    ranks = start(PATH=f"{place.folder / 'bin'}:{place.environ['PATH']}")
    code, output = finish(ranks)
    assert code == 2, output
    assert "do not see the same folder" in output
    assert not run.shards.exists()

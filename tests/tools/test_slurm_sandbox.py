"""tools/slurm_sandbox: a private Slurm that starts and leaves nothing behind (tests/cluster: jobs, requeues, GPUs)."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import ROOT, Slurm, needs_slurm
from tests.waiting import gone, wait_for

SANDBOX = ROOT / "tools" / "slurm_sandbox"
JOB = "trap '' TERM; echo $$; while :; do sleep 1; done"
pytestmark = [needs_slurm, pytest.mark.cluster]


def sandbox(verb: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SANDBOX, verb, folder, *options], capture_output=True, text=True, timeout=500)


def submit(cluster: Slurm, script: str, *options: str) -> str:
    return cluster("sbatch", "--parsable", "--output=%j.log", *options, "--wrap", script)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    started = sandbox("start", folder)
    assert started.returncode == 0, started.stderr
    yield Slurm(folder)
    assert sandbox("stop", folder).returncode == 0


def test_sacct_answers_what_submitit_asks(cluster: Slurm) -> None:
    job = submit(cluster, "true", "--array=0-1", "--wait")
    cluster.wait(job)
    lines = cluster("sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", job).splitlines()
    assert lines[0] == "JobID|State|NodeList"
    rows = sorted(line.split("|")[:2] for line in lines[1:])
    assert rows == [[f"{job}_0", "COMPLETED"], [f"{job}_1", "COMPLETED"]]


def test_a_second_start_in_the_same_folder_is_refused(cluster: Slurm) -> None:
    again = sandbox("start", cluster.folder)
    assert again.returncode == 2
    assert "is running there" in again.stderr
    assert sandbox("status", cluster.folder).returncode == 0


def test_two_run_side_by_side_and_stopping_one_ends_its_daemons_and_jobs_and_spares_the_other(
    cluster: Slurm, tmp_path: Path
) -> None:
    started = sandbox("start", tmp_path, "--nodes", "1", "--cpus", "8", "--gpus", "0")
    try:
        assert started.returncode == 0, started.stderr
        other = Slurm(tmp_path)
        assert other("sinfo", "-h", "-o", "%D %c", "-p", "debug") == "1 8"
        assert cluster("sinfo", "-h", "-o", "%D %c", "-p", "debug") == "2 2"
        log = tmp_path / f"{submit(other, JOB)}.log"
        wait_for(lambda: log.exists() and log.read_text().endswith("\n"), "the job starts")
        lines = sandbox("status", tmp_path).stdout.splitlines()
        pids = [int(line.split()[1]) for line in lines if line.endswith((" up", " DOWN"))]
        processes = list(map(psutil.Process, [*pids, int(log.read_text())]))
        assert len(processes) == 4
    finally:
        stopped = sandbox("stop", tmp_path)
    assert stopped.returncode == 0
    wait_for(lambda: all(map(gone, processes)), "every process is gone")
    assert sandbox("status", tmp_path).returncode == 1
    assert sandbox("status", cluster.folder).returncode == 0


def test_a_folder_without_sandbox_is_one_clear_line(tmp_path: Path) -> None:
    for verb in ("stop", "env", "status"):
        done = sandbox(verb, tmp_path)
        assert done.returncode == 2
        assert done.stderr == f"error: {tmp_path}: no sandbox was started there\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_it_runs_without_root() -> None:
    """As user nobody, from a copy of the tool, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
    shutil.copytree(ROOT / "tools" / "system", folder / "system")
    tool = shutil.copy(SANDBOX, folder / "slurm_sandbox")
    for path in (folder, folder / "system", *folder.iterdir()):
        os.chown(path, 65534, 65534)

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, user=65534, group=65534, extra_groups=[], cwd=folder, capture_output=True, text=True,
            timeout=500, env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "USER": "nobody"},
        )  # fmt: skip

    try:
        started = run("python3", tool, "start", folder / "s", "--nodes", "1")
        assert started.returncode == 0, started.stderr
        setup = f'eval "$(python3 {tool} env {folder}/s)"'
        script = f'{setup} && sbatch --wait -o job.log --wrap "id -un" && cat job.log'
        done = run("bash", "-c", script)
        assert done.stdout.split()[-1] == "nobody", done.stderr
    finally:
        stopped = run("python3", tool, "stop", folder / "s")
        shutil.rmtree(folder)
    assert stopped.returncode == 0, stopped.stderr

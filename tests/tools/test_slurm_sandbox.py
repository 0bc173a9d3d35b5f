"""tools/slurm_sandbox: a private Slurm that starts and leaves nothing behind (tests/cluster: jobs, requeues, GPUs)."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SANDBOX = ROOT / "tools" / "slurm_sandbox"
SEARCH = os.environ["PATH"] + ":/usr/sbin"

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        not all(shutil.which(name, path=SEARCH) for name in ("slurmctld", "slurmd", "munged", "sbatch")),
        reason="SKIPPED: SLURM IS NOT INSTALLED (tools/install_system.sh slurm)",
    ),
]


def sandbox(verb: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SANDBOX, verb, folder, *options], capture_output=True, text=True, timeout=500)


def environment(folder: Path) -> dict[str, str]:
    """What a shell has after eval "$(slurm_sandbox env DIR)"."""
    script = f'eval "$({SANDBOX} env {folder})" && env -0'
    out = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=500).stdout
    return dict(item.split("=", 1) for item in out.decode().split("\0") if "=" in item)


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder, self.env = folder, environment(folder)

    def __call__(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, script: str, *options: str) -> str:
        return self(
            "sbatch", "--parsable", "--output=%j.log", "--open-mode=append", *options, "--wrap", script
        )

    def state(self, job: str) -> str:
        return self("squeue", "--states=all", "-h", "-j", job, "-o", "%T")

    def log(self, job: str) -> str:
        path = self.folder / f"{job}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slurm")
    started = sandbox("start", folder)
    assert started.returncode == 0, started.stderr
    yield Cluster(folder)
    assert sandbox("stop", folder).returncode == 0


def daemon_pids(folder: Path) -> list[int]:
    lines = sandbox("status", folder).stdout.splitlines()
    return [int(line.split()[1]) for line in lines if line.endswith((" up", " DOWN"))]


def test_sacct_answers_what_submitit_asks(cluster: Cluster) -> None:
    job = cluster.submit("true", "--array=0-1", "--wait")
    wait_for(lambda: cluster.state(job).split() == ["COMPLETED"] * 2, "no task is completing any more")
    lines = cluster("sacct", "-o", "JobID,State,NodeList", "--parsable2", "-j", job).splitlines()
    assert lines[0] == "JobID|State|NodeList"
    rows = sorted(line.split("|")[:2] for line in lines[1:])
    assert rows == [[f"{job}_0", "COMPLETED"], [f"{job}_1", "COMPLETED"]]


def test_a_second_start_in_the_same_folder_is_refused(cluster: Cluster) -> None:
    again = sandbox("start", cluster.folder)
    assert again.returncode == 2
    assert "is running there" in again.stderr
    assert sandbox("status", cluster.folder).returncode == 0


def test_two_sandboxes_run_side_by_side_and_stopping_one_spares_the_other(
    cluster: Cluster, tmp_path: Path
) -> None:
    started = sandbox("start", tmp_path, "--nodes", "1", "--cpus", "8", "--gpus", "0")
    try:
        assert started.returncode == 0, started.stderr
        other = Cluster(tmp_path)
        assert other("sinfo", "-h", "-o", "%D %c", "-p", "debug") == "1 8"
        assert cluster("sinfo", "-h", "-o", "%D %c", "-p", "debug") == "2 2"
    finally:
        sandbox("stop", tmp_path)
    assert sandbox("status", cluster.folder).returncode == 0


def test_stop_ends_the_daemons_and_the_running_jobs(tmp_path: Path) -> None:
    assert sandbox("start", tmp_path, "--nodes", "1").returncode == 0
    cluster = Cluster(tmp_path)
    try:
        job = cluster.submit("trap '' TERM; echo $$; while :; do sleep 1; done")
        wait_for(lambda: cluster.log(job).endswith("\n"), "the job starts")
        pids = [*daemon_pids(tmp_path), int(cluster.log(job).split()[0])]
        assert len(pids) == 4
    finally:
        stopped = sandbox("stop", tmp_path)
    assert stopped.returncode == 0
    wait_for(lambda: not any(running(pid) for pid in pids), "every process is gone")
    assert sandbox("status", tmp_path).returncode == 1


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


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

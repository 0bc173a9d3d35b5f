"""The whole pipeline inside a real image: the dataset of outside, whatever is sealed off and whoever dies."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.store.run_folder import RunFolder
from tests.cluster.conftest import Place, Slurm, dataset, needs_slurm
from tests.command import end_tree
from tests.dataset.conftest import records_of
from tests.held import held
from tests.project import write_graph
from tests.waiting import wait_for
from tests.work.rig import events

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.container, pytest.mark.slow, pytest.mark.timeout(3600)]

# Full of engine faults to retry.
CONFIG = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 0, max_degree: 100}
anchors: {kind: graphlet, per_shape: 5}
engine:
  kind: scripted
  accept: 0.5
  faults: {garbage: 0.05, truncate: 0.02, error: 0.02}
  latency: {batch: 5, per_request_s: 0.05}
runtime: {shard_size: 12, commit_every: 1s, lease: 10s}
"""
EMBEDDED = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 0, max_degree: 100}
anchors: {kind: graphlet, per_shape: 2, shapes: [2]}
prompts: {generate: demo, judge: demo_filter}
engine: {kind: cpu}
runtime: {shard_size: 2}
"""


def write_inputs(folder: Path) -> None:
    write_graph(folder, nodes=120, edges=320)
    (folder / "scripted.yaml").write_text(CONFIG)
    (folder / "embedded.yaml").write_text(EMBEDDED)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def outside(
    tmp_path_factory: pytest.TempPathFactory, host: Callable[..., Any], environment: dict[str, str]
) -> Path:
    """The run of a plain environment on the host: what every run inside must equal."""
    folder = tmp_path_factory.mktemp("outside")
    write_inputs(folder)
    env = {**environment, "PYTHONPATH": str(ROOT)}
    done = host("python", "-m", "kgqa_hpc", "all", "scripted.yaml", "run", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def assert_same_dataset(inside: Path, outside: Path) -> None:
    """Parquet names its writer's version; so do the sums of all files."""
    ours, theirs = (
        {
            name: data
            for name, data in dataset(RunFolder(run)).items()
            if not name.endswith(("SUMS", ".parquet"))
        }
        for run in (inside, outside)
    )
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert {"accepted.jsonl", "rejected.jsonl", "lost.jsonl", "accounting.json"} <= ours.keys()


def sampled(outside: Path, run: Path) -> None:
    """A copy of the run outside as it was before it was worked on."""
    done = shutil.ignore_patterns("results", "dataset", "report", "logs", "status.json", "*.lock")
    shutil.copytree(outside, run, ignore=done)


def sealed(work: Path) -> tuple[str, ...]:
    """Options that leave an image nothing of the host but one folder: no home, no network, no environment."""
    network = ("--net", "--network", "none")
    return ("--containall", "--no-home", *network, "--bind", f"{work}:/work", "--pwd", "/work")


def test_sealed_off_and_read_only_it_makes_the_same_dataset(image: Any, work: Path, outside: Path) -> None:
    """No home, no network, no host folder but one, nothing writable but that one."""
    attempt = "touch /opt/kgqa/x || touch /usr/x || touch /root/x; ls /sys/class/net"
    done = image.exec("sh", "-c", attempt, options=sealed(work))
    assert done.stdout.split() == ["lo"]
    assert done.stderr.count("Read-only file system") == 3
    done = image.exec("kgqa", "all", "scripted.yaml", "run", options=sealed(work))
    assert done.returncode == 0, done.stderr
    assert_same_dataset(work / "run", outside)
    tables = [run / "dataset" / "accepted-00000-of-00001.parquet" for run in (work / "run", outside)]
    assert pq.read_table(tables[0]).equals(pq.read_table(tables[1]))
    assert (work / "run" / "report" / "index.html").stat().st_size > 10_000


def test_both_backends_count_alike_inside_and_as_outside(
    image: Any, work: Path, host: Callable[..., Any], environment: dict[str, str]
) -> None:
    write_graph(work, nodes=60, edges=140)  # graph-tool is slow
    count = ("count", "--nodes", "nodes.csv", "--edges", "edges.csv", "--min-degree", "0", "--json")
    options: tuple[Any, ...] = ("--bind", work, "--pwd", work)
    found = []
    for backend in ("native", "graph-tool"):
        inside = image.exec("kgqa", *count, "--backend", backend, options=options)
        assert inside.returncode == 0, inside.stderr
        found.append(json.loads(inside.stdout))
    plain = host("python", "-m", "kgqa_hpc", *count, cwd=work, env={**environment, "PYTHONPATH": str(ROOT)})
    assert plain.returncode == 0, plain.stderr
    assert found == [json.loads(plain.stdout)] * 2
    hidden = ("--bind", f"{work / 'empty'}:/usr/lib/python3/dist-packages/graph_tool")
    (work / "empty").mkdir()
    without = image.exec("kgqa", *count, "--backend", "graph-tool", options=(*options, *hidden))
    assert without.returncode == 2, "the backend graph-tool counts without graph-tool"
    assert sum(found[0]["counts"].values()) > 2_000


def test_a_killed_rank_of_four_costs_nothing(
    image: Any, work: Path, outside: Path, environment: dict[str, str]
) -> None:
    options = ("--bind", str(work), "--pwd", str(work))
    sampled(outside, work / "run")
    command = [
        "mpiexec", "--with-ft", "ulfm", "--map-by", ":OVERSUBSCRIBE", "-n", "4",
        "apptainer", "--quiet", "exec", *options, str(image.path), "kgqa", "run", "run",
    ]  # fmt: skip
    env, run = {**environment, **held(work / "hold")}, RunFolder(work / "run")
    with open(work / "mpi.log", "w") as log:
        job = subprocess.Popen(command, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=work)
        try:
            opened = lambda: len({entry["worker"] for entry in events(run, "shard-opened")})  # noqa: E731
            wait_for(lambda: opened() == 4 or job.poll() is not None, "work for every rank")
            assert job.poll() is None, Path(log.name).read_text()
            (victim,) = (entry["pid"] for entry in events(run, "started") if entry["rank"] == 2)
            os.kill(victim, signal.SIGKILL)
            (work / "hold" / "go").touch()
            job.wait(timeout=900)
        finally:
            end_tree(job)
    text = (work / "mpi.log").read_text()
    status = json.loads(image.exec("kgqa", "status", "run", "--json", options=options).stdout)
    assert status["complete"], text
    assert image.exec("kgqa", "merge", "run", options=options).returncode == 0
    assert_same_dataset(work / "run", outside)


def test_an_mpiexec_of_another_mpi_is_refused_with_the_reason_and_does_not_hang(
    image: Any, work: Path, outside: Path
) -> None:
    """As when the host's Open MPI 4 starts ranks in an image that holds Open MPI 5."""
    options = ("--bind", str(work), "--pwd", str(work))
    sampled(outside, work / "run")
    foreign = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0", "PMIX_VERSION": "3.2.3"}
    pairs = [word for name, value in foreign.items() for word in ("--env", f"{name}={value}")]
    done = image.exec("kgqa", "run", "run", options=(*options, *pairs))
    assert done.returncode == 2, done.stderr
    assert "mpiexec is Open MPI 4 and the MPI library is Open MPI 5" in done.stderr


def test_the_embedded_model_answers(image: Any, work: Path) -> None:
    """Real tokens from the weights inside; not what they say counts, but that they were parsed and stored."""
    options = (*sealed(work), "--env", "GOMP_SPINCOUNT=0")  # as tests/conftest.py
    done = image.exec("kgqa", "all", "embedded.yaml", "run", options=options, timeout=1800)
    assert done.returncode == 0, done.stderr
    records = records_of(work / "run" / "dataset", "accepted", "rejected")
    assert records
    engines = {engine["name"] for record in records for engine in record["provenance"]["engine"].values()}
    assert engines == {"cpu"}
    assert all(record["question"] and record["answer"] for record in records)


@needs_slurm
def test_the_projects_own_scripts_run_each_stage_in_its_image_under_slurm(
    image: Any, work: Path, outside: Path, environment: dict[str, str], slurm: Slurm
) -> None:
    images = {"KGQA_GRAPH_IMAGE": str(image.path), "KGQA_LLM_IMAGE": str(image.path)}
    settings = {"KGQA_APPTAINER": "--no-home", "KGQA_SBATCH": "--cpus-per-task=1 --mem=1G"}
    place = Place(work, {**environment, **slurm.environ, **images, **settings})
    sizes = ("--ntasks-per-node=2", "--gpus-per-node=2", "--time=30")
    submitted = place(ROOT / "slurm" / "pipeline.sh", "scripted.yaml", "run", *sizes)
    try:
        slurm.wait(submitted.splitlines()[2].split()[1])
    finally:
        print(*(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(work.glob("**/*.log"))))
    assert_same_dataset(work / "run", outside)

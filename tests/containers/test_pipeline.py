"""The whole pipeline inside a real image: the dataset of outside, whatever is sealed off and whoever dies."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.store.run_folder import RunFolder
from tests.command import end_tree
from tests.held import held
from tests.waiting import wait_for
from tests.work.rig import events

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.container, pytest.mark.slow, pytest.mark.timeout(3600)]

# Full of engine faults to retry.
CONFIG = """
seed: 7
graph: {source: csv, nodes: nodes.csv, edges: edges.csv, min_degree: 0, max_degree: 100}
anchors: {kind: graphlet, per_shape: 10}
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
    """A random graph of 120 nodes and 320 edges, and the two configurations."""
    draw = random.Random(1)
    edges: set[tuple[int, ...]] = set()
    while len(edges) < 320:
        edges.add(tuple(sorted(draw.sample(range(120), 2))))
    nodes = "".join(f"n{i},Node {i},{'AB'[i % 2]}\n" for i in range(120))
    (folder / "nodes.csv").write_text("id,name,type\n" + nodes)
    lines = "".join(f"n{a},n{b},meets\n" for a, b in sorted(edges))
    (folder / "edges.csv").write_text("source_id,target_id,type\n" + lines)
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


def dataset(run: Path) -> dict[str, bytes]:
    """All files of the dataset. Parquet names its writer's version; so do the sums of all files."""
    files = {path.name: path.read_bytes() for path in sorted((run / "dataset").rglob("*")) if path.is_file()}
    return {
        name: data for name, data in files.items() if name != "SHA256SUMS" and not name.endswith(".parquet")
    }


def assert_same_dataset(inside: Path, outside: Path) -> None:
    ours, theirs = dataset(inside), dataset(outside)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert {"accepted.jsonl", "rejected.jsonl", "lost.jsonl", "accounting.json"} <= ours.keys()


def read_parquet(run: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(run / "dataset" / "accepted-00000-of-00001.parquet")


def sealed(work: Path) -> tuple[str, ...]:
    """Options that leave an image nothing of the host but one folder: no home, no network, no environment."""
    network = ("--net", "--network", "none")
    return ("--containall", "--no-home", *network, "--bind", f"{work}:/work", "--pwd", "/work")


# --- the promises


def test_sealed_off_and_read_only_it_makes_the_dataset_of_outside(
    image: Any, work: Path, outside: Path
) -> None:
    """No home, no network, no host folder but one, nothing writable but that one."""
    attempt = "touch /opt/kgqa/x || touch /usr/x || touch /root/x; ls /sys/class/net"
    done = image.exec("sh", "-c", attempt, options=sealed(work))
    assert done.stdout.split() == ["lo"]
    assert done.stderr.count("Read-only file system") == 3
    done = image.exec("kgqa", "all", "scripted.yaml", "run", options=sealed(work))
    assert done.returncode == 0, done.stderr
    assert_same_dataset(work / "run", outside)
    assert read_parquet(work / "run").equals(read_parquet(outside))
    assert (work / "run" / "report" / "index.html").stat().st_size > 10_000


def test_both_backends_count_alike_inside_and_as_outside(
    image: Any, work: Path, host: Callable[..., Any], environment: dict[str, str]
) -> None:
    count = ("count", "--nodes", "nodes.csv", "--edges", "edges.csv", "--min-degree", "0", "--json")
    found = []
    for backend in ("native", "graph-tool"):
        inside = image.exec("kgqa", *count, "--backend", backend, options=("--bind", work, "--pwd", work))
        assert inside.returncode == 0, inside.stderr
        found.append(json.loads(inside.stdout))
    plain = host("python", "-m", "kgqa_hpc", *count, cwd=work, env={**environment, "PYTHONPATH": str(ROOT)})
    assert plain.returncode == 0, plain.stderr
    assert found == [json.loads(plain.stdout)] * 2
    hidden = ("--bind", f"{work / 'empty'}:/usr/lib/python3/dist-packages/graph_tool")
    (work / "empty").mkdir()
    options = ("--bind", work, "--pwd", work, *hidden)
    without = image.exec("kgqa", *count, "--backend", "graph-tool", options=options)
    assert without.returncode == 2, "the backend graph-tool counts without graph-tool"
    assert sum(found[0]["counts"].values()) > 50_000


def test_a_killed_rank_of_four_costs_nothing(
    image: Any, work: Path, outside: Path, environment: dict[str, str]
) -> None:
    options = ("--bind", str(work), "--pwd", str(work))
    for verb in ("init", "import", "sample"):
        arguments = ("scripted.yaml", "run") if verb == "init" else ("run",)
        done = image.exec("kgqa", verb, *arguments, options=options)
        assert done.returncode == 0, done.stderr
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
    image: Any, work: Path
) -> None:
    """As when the host's Open MPI 4 starts ranks in an image that holds Open MPI 5."""
    options = ("--bind", str(work), "--pwd", str(work))
    image.exec("kgqa", "init", "scripted.yaml", "run", options=options)
    foreign = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0", "PMIX_VERSION": "3.2.3"}
    pairs = [word for name, value in foreign.items() for word in ("--env", f"{name}={value}")]
    done = image.exec("kgqa", "run", "run", options=(*options, *pairs))
    assert done.returncode == 2, done.stderr
    assert "mpiexec is Open MPI 4 and the MPI library is Open MPI 5" in done.stderr


def test_the_embedded_model_answers(image: Any, work: Path) -> None:
    """Real tokens from the weights inside; not what they say counts, but that they were parsed and stored."""
    done = image.exec("kgqa", "all", "embedded.yaml", "run", options=sealed(work), timeout=1800)
    assert done.returncode == 0, done.stderr
    accounting = json.loads((work / "run" / "dataset" / "accounting.json").read_text())
    records = [
        json.loads(line)
        for name in ("accepted", "rejected")
        for line in (work / "run" / "dataset" / f"{name}.jsonl").read_text().splitlines()
    ]
    assert records, accounting
    engines = {engine["name"] for record in records for engine in record["provenance"]["engine"].values()}
    assert engines == {"cpu"}
    assert all(record["question"] and record["answer"] for record in records)


@pytest.fixture
def cluster(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[dict[str, str]]:
    """The environment in which sbatch talks to a private Slurm of two nodes with two fake GPUs each."""
    if not shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin"):
        pytest.skip("SKIPPED: SLURM IS NOT INSTALLED (tools/install_system.sh slurm)")
    tool, folder = ROOT / "tools" / "slurm_sandbox", tmp_path_factory.mktemp("slurm")
    started = subprocess.run(
        [tool, "start", folder], env=environment, capture_output=True, text=True, timeout=900
    )
    assert started.returncode == 0, started.stderr
    try:
        script = f'eval "$({tool} env {folder})" && env -0'
        out = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, timeout=600).stdout
        yield dict(item.split("=", 1) for item in out.decode().split("\0") if "=" in item)
    finally:
        subprocess.run([tool, "stop", folder], capture_output=True, timeout=600)


def test_the_projects_own_scripts_run_each_stage_in_its_image_under_slurm(
    image: Any, work: Path, outside: Path, cluster: dict[str, str]
) -> None:
    env = {
        **cluster,
        "KGQA_GRAPH_IMAGE": str(image.path),
        "KGQA_LLM_IMAGE": str(image.path),
        "KGQA_APPTAINER": "--no-home",
        "KGQA_SBATCH": "--cpus-per-task=1 --mem=1G",
    }
    sizes = ("--ntasks-per-node=2", "--gpus-per-node=2", "--time=30")
    submitted = subprocess.run(
        [ROOT / "slurm" / "pipeline.sh", "scripted.yaml", "run", *sizes],
        env=env, cwd=work, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    jobs = dict(line.split() for line in submitted.stdout.splitlines()[:3])
    ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"}
    states = {}
    end = time.monotonic() + 1500
    while not all(state in ended for state in states.values()) or not states:
        assert time.monotonic() < end, f"jobs did not end: {states}\n{logs(work)}"
        time.sleep(0.5)
        for name, job in jobs.items():
            command = ["squeue", "--states=all", "-h", "-j", job, "-o", "%T"]
            states[name] = subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=600
            ).stdout.strip()
    assert set(states.values()) == {"COMPLETED"}, f"{states}\n{logs(work)}"
    assert_same_dataset(work / "run", outside)


def logs(folder: Path) -> str:
    return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(folder.glob("*.log")))

"""Large jobs: models reach the disks of all nodes by sbcast, and one server spans all nodes (slurm/run_large.sbatch).

Slurm and vLLM are stand-ins.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.model_files import stage
from kgqa_hpc.engines.openai.own_server import free_port
from kgqa_hpc.runs import create_run, open_run
from kgqa_hpc.runs.checks import model_copies
from tests import chat_program
from tests.cluster.conftest import BIN, PATIENCE, ROOT, clean_environment
from tests.command import programs
from tests.runs import anchors, new_run
from tests.waiting import wait_for

# One node stands for all: srun runs its command here, sbcast copies a file here.
SRUN = 'while [ $# -gt 0 ]; do case $1 in --*) shift ;; *) break ;; esac; done\nexec "$@"\n'
SBCAST = 'echo "$2" >>"$SENT"; [ "$1" = --force ] && cp "$2" "$3"\n'
SRUN_ON_TWO = """while [[ $1 = --* ]]; do shift; done
trap 'kill $(jobs -p)' TERM
for node in 0 1; do SLURM_NODEID=$node "$@" & done
wait; wait"""
SCONTROL = "[ $2 != hostnames ] || printf '%s\\n' node1 node2"
VLLM = f'exec {sys.executable} {chat_program.__file__} "$@"'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "shared" / "my model"
    (folder / "original").mkdir(parents=True)
    for name in ("config.json", "original/params.json"):
        (folder / name).write_text("{}")
    for name in ("model.safetensors", "original/consolidated.00.pth"):
        (folder / name).write_bytes(os.urandom(100_000))
    return folder


@pytest.fixture
def staged(tmp_path: Path, model: Path) -> Path:
    """A run whose model is copied to the disk of each node."""
    (tmp_path / "disk").mkdir()
    engine = {"kind": "lmdeploy", "model": str(model), "stage_to": "$LOCAL_DISK"}
    config = parse_config({"graph": {"source": "hpo"}, "engine": engine}, "the test")
    return create_run(tmp_path / "run", config).path


def broadcast(tmp_path: Path, run: Path, **variables: str) -> list[str]:
    """Call the script's function as run_mpi.sbatch does; the files that were sent."""
    environ = {**os.environ, "PATH": programs(tmp_path, srun=SRUN, sbcast=SBCAST), "PYTHONPATH": str(ROOT)}
    environ |= {"LOCAL_DISK": str(tmp_path / "disk"), "SENT": str(tmp_path / "sent")}
    environ |= {"SLURM_JOB_NUM_NODES": "17", "SLURM_JOB_ID": "1"}
    environ |= {"KGQA_COMMAND": f"{sys.executable} -m kgqa_hpc", **variables}
    program = 'set -euo pipefail; source "$0"; use_image "" "$1"; broadcast_models "$1"'
    words = ["bash", "-c", program, str(ROOT / "slurm" / "common.sh"), str(run)]
    subprocess.run(words, env=environ, check=True)
    sent = tmp_path / "sent"
    return sent.read_text().splitlines() if sent.exists() else []


def test_the_files_that_loading_needs_reach_every_node_and_the_workers_copy_nothing(
    tmp_path: Path, staged: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(Path(file).relative_to(model)) for file in broadcast(tmp_path, staged)]
    assert names == ["config.json", "model.safetensors", "original/params.json"]
    (copy,) = (tmp_path / "disk").iterdir()
    made = (copy / "model.safetensors").stat().st_ino
    monkeypatch.setenv("LOCAL_DISK", str(tmp_path / "disk"))
    assert stage(model, "$LOCAL_DISK") == copy
    assert (copy / "model.safetensors").stat().st_ino == made
    assert list(model_copies(open_run(staged)[1])) == [], "a node that has the model asks for nothing"


def test_a_small_job_or_a_site_without_a_model_sends_nothing(
    tmp_path: Path, staged: Path, model: Path
) -> None:
    assert broadcast(tmp_path, staged, SLURM_JOB_NUM_NODES="16") == []
    (model / "config.json").unlink()
    assert broadcast(tmp_path, staged) == []
    assert list((tmp_path / "disk").iterdir()) == []


def job(folder: Path, run: Path, port: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The script as a job of two nodes with four GPUs each."""
    path = programs(folder, srun=SRUN_ON_TWO, scontrol=SCONTROL, vllm=VLLM)
    environ = clean_environment()
    environ |= {"PATH": f"{path}:{environ['PATH']}", "PYTHONPATH": str(ROOT), "NOTES": str(folder / "notes")}
    environ |= {"KGQA_SERVER_PORT": str(port), "KGQA_COMMAND": str(BIN / "kgqa"), "SLURM_JOB_ID": "7"}
    environ |= {"SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NODELIST": "node[1-2]"}
    environ |= {"SLURM_JOB_END_TIME": "4000000000"}
    script = ["bash", ROOT / "slurm/run_large.sbatch", run, "/models/Big", *words]
    return subprocess.run(script, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE)


def started(folder: Path) -> dict[int, list[str]]:
    """The words of each server that was started, by process id."""
    notes = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    return {note["pid"]: note["words"] for note in notes}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture
def run(tmp_path: Path, port: int) -> Path:
    engine = {"kind": "openai", "model": "Big", "base_url": f"http://127.0.0.1:{port}/v1"}
    return new_run(
        tmp_path / "run", parse_config({"engine": engine}, "the test"), anchors(20), {"seed": 1}
    ).path


def test_a_server_over_all_nodes_answers_a_run_and_ends_with_it(tmp_path: Path, run: Path, port: int) -> None:
    done = job(tmp_path, run, port, "--max-num-seqs", "256")
    assert done.returncode == 0, done.stderr[-3000:]
    status = json.loads((run / "status.json").read_text())
    assert status["complete"]
    nodes = {words[words.index("--node-rank") + 1]: words for words in started(tmp_path).values()}
    assert {*nodes} == {"0", "1"}
    assert ("--headless" in nodes["0"], "--headless" in nodes["1"]) == (False, True)
    text = " ".join(nodes["1"])
    assert text.startswith("serve /models/Big --served-model-name Big")
    assert "--tensor-parallel-size 4 --pipeline-parallel-size 2 --nnodes 2 --master-addr node1" in text
    assert "--max-num-seqs 256" in text
    wait_for(lambda: not any(map(psutil.pid_exists, started(tmp_path))), "no server left")


def test_a_server_that_ends_early_ends_the_job_with_the_reason(tmp_path: Path, run: Path, port: int) -> None:
    done = job(tmp_path, run, port, "--fail")
    assert done.returncode == 1
    assert "the server ended before it was ready" in done.stderr

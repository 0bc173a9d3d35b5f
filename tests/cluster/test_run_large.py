"""slurm/run_large.sbatch: one server over all nodes of a job, and a worker that asks it.

Slurm and vLLM are stand-ins.
"""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.openai.own_server import free_port
from tests import chat_program
from tests.cluster.conftest import BIN, PATIENCE, ROOT, clean_environment
from tests.command import programs
from tests.runs import anchors, new_run
from tests.waiting import wait_for

SRUN = """while [[ $1 = --* ]]; do shift; done
trap 'kill $(jobs -p)' TERM
for node in 0 1; do SLURM_NODEID=$node "$@" & done
wait; wait"""
SCONTROL = "[ $2 != hostnames ] || printf '%s\\n' node1 node2"
VLLM = f'exec {sys.executable} {chat_program.__file__} "$@"'


def job(folder: Path, run: Path, port: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The script as a job of two nodes with four GPUs each."""
    path = programs(folder, srun=SRUN, scontrol=SCONTROL, vllm=VLLM)
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

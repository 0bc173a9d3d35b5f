"""Large jobs: the models of `stage_to` reach the disks of all nodes by sbcast, and the workers take those copies."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.model_files import stage
from kgqa_hpc.runs import create_run, open_run
from kgqa_hpc.runs.checks import model_copies
from tests.command import programs

ROOT = Path(__file__).parents[2]
# One node stands for all: srun runs its command here, sbcast copies a file here.
SRUN = 'while [ $# -gt 0 ]; do case $1 in --*) shift ;; *) break ;; esac; done\nexec "$@"\n'
SBCAST = 'echo "$2" >>"$SENT"; [ "$1" = --force ] && cp "$2" "$3"\n'


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
def run(tmp_path: Path, model: Path) -> Path:
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
    tmp_path: Path, run: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(Path(file).relative_to(model)) for file in broadcast(tmp_path, run)]
    assert names == ["config.json", "model.safetensors", "original/params.json"]
    (copy,) = (tmp_path / "disk").iterdir()
    made = (copy / "model.safetensors").stat().st_ino
    monkeypatch.setenv("LOCAL_DISK", str(tmp_path / "disk"))
    assert stage(model, "$LOCAL_DISK") == copy
    assert (copy / "model.safetensors").stat().st_ino == made
    assert list(model_copies(open_run(run)[1])) == [], "a node that has the model asks for nothing"


def test_a_small_job_or_a_site_without_a_model_sends_nothing(tmp_path: Path, run: Path, model: Path) -> None:
    assert broadcast(tmp_path, run, SLURM_JOB_NUM_NODES="16") == []
    (model / "config.json").unlink()
    assert broadcast(tmp_path, run) == []
    assert list((tmp_path / "disk").iterdir()) == []

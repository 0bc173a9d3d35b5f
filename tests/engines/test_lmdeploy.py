"""The LMDeploy engine: its contract on the installed LMDeploy, in its own environment, and its pure parts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgqa_hpc.engines.config import LmdeployEngineConfig
from kgqa_hpc.engines.lmdeploy import LmdeployEngine, folder_digest, pin_gpu, public_name
from kgqa_hpc.errors import EngineConfigError

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / os.environ.get("VENV_LMDEPLOY", ".venv-lmdeploy") / "bin" / "python"
STAMP = PYTHON.parents[1] / "kgqa.stamp"


@pytest.mark.slow
@pytest.mark.skipif(
    not STAMP.exists(),
    reason="LMDEPLOY IS NOT INSTALLED FOR THE CPU, ITS CONTRACT NOT TESTED: tools/install_lmdeploy_cpu.sh",
)
def test_the_engine_keeps_its_contract_on_the_installed_lmdeploy() -> None:
    command = [PYTHON, "-m", "pytest", "tests/engines/lmdeploy_contract.py", "-q", "-c", os.devnull]
    command += ["--rootdir", ROOT, "--timeout", "300", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'engines'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout[-6000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@pytest.mark.skipif("lmdeploy" in sys.modules, reason="LMDeploy is installed beside us")
def test_a_missing_package_is_bad_input_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdeploy", None)
    with pytest.raises(EngineConfigError, match="cannot be imported") as caught:
        LmdeployEngine(LmdeployEngineConfig(model="some/model"))
    assert "kgqa_hpc[lmdeploy]" in caught.value.cure


@pytest.mark.parametrize(
    ("visible", "rank", "tp", "expected"),
    [
        (None, "2", 1, "2"),  # the launcher masked nothing: our rank's device
        ("4,5,6", "1", 1, "5"),
        ("4,5,6", "4", 1, "5"),  # more ranks than devices share them
        ("7", "3", 1, "7"),  # masked already, as with --gpus-per-task=1
        ("GPU-aa,GPU-bb", "1", 1, "GPU-bb"),
        (None, None, 1, None),
        ("0,1", "0", 2, "0,1"),  # tensor parallel: the model takes what it sees
    ],
)
def test_each_worker_takes_one_gpu(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, rank: str | None, tp: int, expected: str | None
) -> None:
    for name in ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    if rank is not None:
        monkeypatch.setenv("SLURM_LOCALID", rank)
    pin_gpu(tp)
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == expected


def test_names_of_models_are_public() -> None:
    hub = "/data/user/hub/models--casperhansen--llama-3-70b-awq/snapshots/" + "a" * 40
    assert public_name(hub) == "casperhansen/llama-3-70b-awq"
    assert public_name("casperhansen/llama-3-70b-awq") == "casperhansen/llama-3-70b-awq"
    assert public_name("/scratch/somebody/models/mine") == "mine"


def test_a_local_models_digest_follows_its_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(10))
    first = folder_digest(tmp_path)
    assert first == folder_digest(tmp_path)
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert folder_digest(tmp_path) != first
    assert folder_digest(tmp_path / "none") == ""
    snapshot = tmp_path / "snapshots" / ("b" * 40)
    snapshot.mkdir(parents=True)
    assert folder_digest(snapshot) == "b" * 40

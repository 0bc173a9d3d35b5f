"""The LMDeploy engine: its contract on the installed LMDeploy, in its own environment, and its pure parts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgqa_hpc.engines.lmdeploy import LmdeployEngine
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings
from kgqa_hpc.errors import EngineConfigError

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / os.environ.get("VENV_LMDEPLOY", ".venv-lmdeploy") / "bin" / "python"
STAMP = PYTHON.parents[1] / "kgqa.stamp"


@pytest.mark.slow
@pytest.mark.skipif(
    not STAMP.exists(),
    reason="LMDEPLOY IS NOT INSTALLED FOR THE CPU, ITS CONTRACT NOT TESTED: tools/install_lmdeploy_cpu.sh",
)
@pytest.mark.parametrize(
    ("files", "xgrammar"),
    [("contract_*.py", None), ("contract_guided.py", STAMP.parent / "xgrammar-newest")],
    ids=["lmdeploys-own", "newest-xgrammar"],
)
def test_the_engine_keeps_its_contract_on_the_installed_lmdeploy(files: str, xgrammar: Path | None) -> None:
    command = [PYTHON, "-m", "pytest", "-q", "-c", os.devnull, "-p", "lmdeploy_fake"]
    command += sorted(Path(__file__).parent.glob(files))
    command += ["--rootdir", ROOT, "--timeout", "300", "-p", "no:cacheprovider"]
    paths = [*([xgrammar] if xgrammar else []), ROOT, ROOT / "tests" / "engines" / "lmdeploy"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout[-6000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def test_the_model_is_looked_for_before_anything_else(tmp_path: Path) -> None:
    """As in an image: offline, with an empty cache. Nobody waits for torch, or reads of a GPU, to hear that."""
    pytest.importorskip("huggingface_hub")
    program = """
import sys
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings, load
try:
    load(LmdeploySettings(model="org/absent", stage_to="/no/such/disk"))
finally:
    print(sorted({"torch", "lmdeploy", "transformers"} & set(sys.modules)))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert f"org/absent is not in the model cache of this machine ({tmp_path}/hub)" in done.stderr
    assert done.stdout == "[]\n"


@pytest.mark.skipif("lmdeploy" in sys.modules, reason="LMDeploy is installed beside us")
def test_a_missing_package_is_bad_input_and_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "lmdeploy", None)
    with pytest.raises(EngineConfigError, match="cannot be imported") as caught:
        LmdeployEngine(LmdeploySettings(model=str(tmp_path)))
    assert "kgqa_hpc[lmdeploy]" in caught.value.cure


def test_a_worker_takes_no_more_cards_than_its_settings_say(tmp_path: Path) -> None:
    for extra in ({"dp": 8, "ep": 8}, {"nnodes": 2}, {"devices": [0, 1]}):
        with pytest.raises(ValueError, match=f"extra.{min(extra)}: a worker takes the `tp` GPUs"):
            LmdeploySettings(model="m", extra=extra)
    with pytest.raises(ValueError, match="starts a Ray cluster for each worker"):
        LmdeploySettings(model="m", backend="pytorch", tp=2)
    named = {"distributed_executor_backend": "mp"}
    assert LmdeploySettings(model="m", backend="pytorch", tp=2, extra=named).gpus_per_worker == 2
    assert LmdeploySettings(model="m", tp=2, extra={"dp": 1}).gpus_per_worker == 2

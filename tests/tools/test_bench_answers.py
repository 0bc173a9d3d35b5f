"""The benchmark of reading hostile answers runs, on texts as hostile as it says; so does that of a whole run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kgqa_hpc.steps.answer_fields import Unparseable
from kgqa_hpc.steps.answer_json import SALVAGEABLE, parse_json
from tests.by_path import load
from tests.tools.test_benchmarks import TOOLS


def test_every_family_reaches_the_limit_of_what_is_searched_and_is_read_or_refused() -> None:
    bench = load(TOOLS / "bench_answers.py")
    for name, make in bench.FAMILIES.items():
        text = make(bench.LONGEST)
        assert 0.99 * SALVAGEABLE < len(text) <= SALVAGEABLE, name
        try:
            parse_json(text, bench.PAIR)
        except Unparseable:
            continue
        assert name in ("an honest answer", "spaces around quotes"), f"{name} is not hostile"


def test_an_exponent_is_that_of_the_times() -> None:
    bench = load(TOOLS / "bench_answers.py")
    lengths = [1000, 2000, 4000, 8000, 16000]
    assert bench.exponent(lengths, [n * 1e-6 for n in lengths]) == pytest.approx(1)
    assert bench.exponent(lengths, [n * n * 1e-9 for n in lengths]) == pytest.approx(2)
    assert bench.exponent(lengths, [1.0, 2.0, None, None, None]) is None


def test_a_small_look_is_one_document() -> None:
    command = [sys.executable, TOOLS / "bench_answers.py", "--shrink", "20", "--json"]
    done = subprocess.run(
        [*command, "--family", "quotes", "--family", "fences"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["family"] for row in told["rows"]] == ["quotes", "fences"]
    assert all(len(row[reader]["seconds"]) == 5 for row in told["rows"] for reader in ("ours", "json"))


@pytest.mark.slow
def test_a_whole_run_is_measured_stage_by_stage(tmp_path: object) -> None:
    command = [sys.executable, TOOLS / "bench_run.py", "--items", "300", "--workers", "1", "--json"]
    done = subprocess.run(
        [*map(str, command), "--folder", str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    stages = json.loads(done.stdout)["stages"]
    assert [each["stage"] for each in stages][:3] == ["import", "sample", "partition"]
    assert stages[-1]["items"] > 200
    assert all(each["cpu_s"] > 0 and each["peak_mb"] > 20 for each in stages)

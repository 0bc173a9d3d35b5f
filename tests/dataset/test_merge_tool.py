"""tools/merge_dataset is `kgqa merge` from anywhere, without kgqa on the PATH."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import programs

TOOL = Path(__file__).parents[2] / "tools" / "merge_dataset"
SHELLCHECK = Path(sys.executable).with_name("shellcheck")


def call(*arguments: object, cwd: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/bin:/bin", "KGQA_PYTHON": python, "HOME": os.environ.get("HOME", "/")}
    command = [str(TOOL), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)


def test_it_merges_a_run_named_relative_to_where_one_stands_and_ends_as_kgqa_does(make_run: Any) -> None:
    run = make_run()
    folder = run.folder.path.parent
    run.finish("shard-000000")
    unfinished, nothing = call(run.folder.path, cwd=folder), call(folder / "nothing", cwd=folder)
    assert (unfinished.returncode, nothing.returncode) == (1, 2)
    assert "7 of 8 shards are not done" in unfinished.stderr
    assert "Traceback" not in unfinished.stderr + nothing.stderr
    run.finish(*run.manifest.names[1:])
    done = call("run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sampled"] == 60
    assert (run.folder.dataset / "accepted-00000-of-00001.parquet").exists()


def test_without_a_python_that_has_the_packages_it_says_what_to_do(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout" / "tools"
    checkout.mkdir(parents=True)
    programs(tmp_path, python3="#!/bin/sh\nexit 1\n")
    tool = shutil.copy(TOOL, checkout)
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run([tool, "run"], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "KGQA_PYTHON" in done.stderr


@pytest.mark.skipif(not SHELLCHECK.exists(), reason="SHELLCHECK IS NOT INSTALLED")
def test_shellcheck_has_nothing_to_say() -> None:
    found = subprocess.run([SHELLCHECK, TOOL], capture_output=True, text=True, check=False)
    assert found.stdout == ""

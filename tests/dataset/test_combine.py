"""Several runs become one dataset: every id once, everything counted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.dataset.combine import combine
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.errors import FingerprintMismatch, InputError


def merged(make_run: Any, name: str, **options: Any) -> Any:
    run = make_run(name=name, **options)
    run.finish()
    merge(run.folder)
    return run


def ids(folder: Path) -> list[str]:
    found = []
    for name in ("accepted", "rejected"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        table = pq.read_table(folder / f"{name}-00000-of-00001.parquet").to_pylist()
        assert [{**row, "features": {}} for row in table] == [json.loads(line) for line in lines]
        found += [row["id"] for row in table]
    return found


def test_every_id_stands_once_and_all_are_counted(make_run: Any, tmp_path: Path) -> None:
    large, small = merged(make_run, "large/run"), merged(make_run, "small/run", items=24)
    told = combine(tmp_path / "out", [small.folder, large.folder])
    found = ids(tmp_path / "out")
    assert len(found) == len(set(found)) == told["accepted"] + told["rejected"]
    theirs = [set(ids(run.folder.dataset)) for run in (small, large)]
    assert set(found) == theirs[0] | theirs[1]
    assert told["combined"] == len(theirs[0] & theirs[1])
    assert told["runs"][0]["run"] == small.folder.manifest().digest
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path / "out", check=True)


def test_runs_of_other_models_are_refused_unless_mixing_is_wanted(make_run: Any, tmp_path: Path) -> None:
    one = merged(make_run, "one/run", items=8)
    passes = [{"name": "draft", "steps": ["generate"]}, {"name": "check", "steps": ["judge"]}]
    other = merged(make_run, "other/run", items=8, passes=passes)
    with pytest.raises(FingerprintMismatch, match="differ in passes"):
        combine(tmp_path / "out", [one.folder, other.folder])
    assert not (tmp_path / "out").exists()
    combine(tmp_path / "out", [one.folder, other.folder], mixed=True)


def test_one_run_is_no_combination(make_run: Any, tmp_path: Path) -> None:
    run = merged(make_run, "one/run", items=8)
    with pytest.raises(InputError, match="two runs or more"):
        combine(tmp_path / "out", [run.folder, run.folder])

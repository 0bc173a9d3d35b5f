"""Finished runs (tests/runs.py), and rows without a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.dataset.rows import Rows, RowsBuilder
from kgqa_hpc.dataset.sketches import SketchMaker
from kgqa_hpc.dataset.spool import SECTIONS, Spool, SpoolWriter
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.results import read_result, read_summary, write_result
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import CONFIG, ENGINE, SyntheticRun, make_anchor, synthetic


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., SyntheticRun]:
    """Make a run: make_run(items=60, shard_size=8, name="run", **changes to the configuration)."""
    return partial(synthetic, tmp_path)


@pytest.fixture
def make_tiny_run(tmp_path: Path) -> Callable[[int, int, str], Path]:
    """A finished run of many small items: make_tiny_run(items, shard_size, name) gives its folder."""
    entry = {
        "step": "generate",
        "attempt": 0,
        "prompt": {"name": "p", "sha256": "0"},
        "engine": ENGINE.provenance(),
    }
    entry |= {"seed": 1, "text": "", "finish": "stop", "error": None, "repaired": False}
    entry |= {"tokens": {"prompt": 1, "completion": 1, "cached": 0}}

    def record(number: int) -> dict[str, Any]:
        fate = (
            {"status": "accepted", "reason": None}
            if number % 3
            else {"status": "rejected", "reason": "check: no"}
        )
        output = {"question": f"Q{number}", "answer": f"A{number}"}
        return {"id": make_anchor(number).id, **fate, "output": output, "verdicts": {}, "trace": [entry]}

    def make(items: int, shard_size: int, name: str) -> Path:
        run = SyntheticRun(tmp_path / name, items, shard_size, CONFIG).folder
        run.results("main").mkdir(parents=True)
        for position, shard in enumerate(read_shards_manifest(run).shards):
            start = position * shard_size
            records = [record(start + i) for i in range(shard.items)]
            header = run.origin("main").header(shard.name, shard.sha256)
            write_result(run.result("main", shard.name), records, header)
        return run.path

    return make


@pytest.fixture
def template(make_run: Any) -> Any:
    """Copies of one finished run, each in a folder of its own."""
    run = make_run(items=9, shard_size=9, dataset={"z_score": None})
    run.finish()

    def copy(folder: Path) -> RunFolder:
        shutil.copytree(run.folder.path, folder / "run")
        return RunFolder(folder / "run")

    return copy


@pytest.fixture
def rows_of() -> Any:
    """rows_of(folder, records) makes rows that are all accepted, without a run; sketches are for `near`.

    A record gets an id, a question, an answer, a kind and a group where it has none.
    """

    def make(folder: Path, records: list[dict[str, Any]], shard: int = 7, near: float | None = None) -> Rows:
        builder = RowsBuilder()
        sketches = SketchMaker(parse_config({**CONFIG, "dataset": {"duplicates": {"near": near}}}, "test"))
        for start in range(0, max(len(records), 1), shard):
            spool = SpoolWriter([BytesIO() for _ in SECTIONS])
            for number, given in enumerate(records[start : start + shard], start):
                common = {"id": f"r{number:05d}", "question": "Q?", "answer": "A.", "kind": "k", "group": "g"}
                one = {**common, "accepted": True, "reason": None, "verdicts": {}, **given}
                pair = one["question"], one["answer"]
                spool.add(
                    one["group"],
                    "accepted",
                    None,
                    pair,
                    True,
                    0,
                    orjson.dumps(one) + b"\n",
                    b"",
                )
            path = folder / f"{start:06d}.spool"
            spool.write(path, lambda form: True)
            accepted = [
                (i, one.get("question", "Q?")) for i, one in enumerate(records[start : start + shard])
            ]
            sketches.write(path, accepted)
            builder.add(path, Spool(path))
        return builder.rows()

    return make


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def rewrite(path: Path, change: Any) -> None:
    """Replace a result by one whose records went through `change`."""
    records, header = read_result(path), read_summary(path)
    path.unlink()
    write_result(path, change(records), {key: header[key] for key in ("made_by", "pass", "shard")})


def workers_of(run: Path) -> list[str]:
    """Command lines of the programs that do tasks of a merge of the run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if "dataset.worker" in line and str(run) in line:
            found.append(line)
    return found

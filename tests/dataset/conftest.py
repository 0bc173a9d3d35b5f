"""Finished runs (tests/runs.py), and candidates without a run."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.candidates import Candidates, Staged, StagedFile, open_candidates
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.duplicates import signatures, words
from kgqa_hpc.dataset.stage import SCHEMA, SUFFIX
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import read_result, read_summary, write_result
from kgqa_hpc.store.sums import write_sums
from tests.record_runs import jsonl
from tests.runs import CONFIG, ENGINE, SyntheticRun, make_anchor, synthetic


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., SyntheticRun]:
    """Make a run: make_run(items=60, shard_size=8, name="run", **changes to the configuration)."""
    return partial(synthetic, tmp_path)


@pytest.fixture
def make_merged(make_run: Callable[..., SyntheticRun]) -> Callable[..., tuple[SyntheticRun, Accounting]]:
    """Make a finished run and merge it; make_merged(**options of make_run) gives the run and the accounting."""

    def make(*, published: bool = False, **options: Any) -> tuple[SyntheticRun, Accounting]:
        run = make_run(**options)
        return run, run.merge(published=published)

    return make


@pytest.fixture(scope="session")
def merged(tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticRun, Accounting]:
    """A merged run with the published form, and its accounting. Read by tests, changed by none."""
    run = synthetic(tmp_path_factory.mktemp("merged"))
    return run, run.merge(published=True)


@pytest.fixture
def make_tiny_run(tmp_path: Path) -> Callable[[int, int, str], Path]:
    """A finished run of many small items: make_tiny_run(items, shard_size, name) gives its folder."""
    entry = {
        "step": "generate",
        "attempt": 0,
        "prompt": {"name": "p", "sha256": "0"},
        "engine": ENGINE.provenance(),
        "seed": 1,
        "text": "",
        "finish": "stop",
        "error": None,
        "repaired": False,
        "tokens": {"prompt": 1, "completion": 1, "cached": 0},
    }
    common = {"verdicts": {}, "features": {}, "annotations": {}, "records": None, "decided": False}

    def record(number: int) -> dict[str, Any]:
        status, reason = ("accepted", None) if number % 3 else ("rejected", "check: no")
        output = {"question": f"Q{number}", "answer": f"A{number}"}
        fate = {"id": make_anchor(number).id, "status": status, "reason": reason}
        return {**fate, "output": output, **common, "trace": [entry]}

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
    run = make_run(items=9, shard_size=9, dataset={"z_score": None}).finish()

    def copy(folder: Path) -> RunFolder:
        shutil.copytree(run.folder.path, folder / "run")
        return RunFolder(folder / "run")

    return copy


@pytest.fixture
def rows_of() -> Iterator[Callable[..., Candidates]]:
    """rows_of(folder, records) makes candidates that are all accepted, without a run; signatures are for `near`.

    A record gets an id, a question, an answer, a kind and a group where it has none.
    """
    with ExitStack() as stack:

        def make(
            folder: Path, records: list[dict[str, Any]], shard: int = 7, near: float | None = None
        ) -> Candidates:
            own = Path(tempfile.mkdtemp(dir=folder))
            config = parse_config({**CONFIG, "dataset": {"duplicates": {"near": near}}}, "test")
            sign, columns, files = signatures(config), Columns(), []
            for start in range(0, len(records), shard):
                rows = [
                    candidate(number, given)
                    for number, given in enumerate(records[start : start + shard], start)
                ]
                path = own / f"{start:06d}{SUFFIX}"
                pq.write_table(sign(pa.Table.from_pylist(rows, SCHEMA)), path)
                files.append(StagedFile(path, len(rows), columns))
            return stack.enter_context(open_candidates(Staged(files, columns), own))

        yield make


def candidate(number: int, given: dict[str, Any]) -> dict[str, Any]:
    """The staged row of an accepted record."""
    common = {"id": f"r{number:05d}", "question": "Q?", "answer": "A.", "kind": "k", "group": "g"}
    record = {**common, "verdicts": {}, **given}
    line = orjson.dumps(record).decode()[:-1]
    plain = " ".join(words(record["question"]))
    return {
        "id": record["id"],
        "grp": record["group"],
        "status": "accepted",
        "single": True,
        "record": line,
        "bytes": len(line),
        "words": plain,
        "same": hashlib.blake2b(plain.encode(), digest_size=16).digest(),
        "question_length": len(record["question"]),
        "answer_length": len(record["answer"]),
    }


def records_of(dataset: Path, *names: str) -> list[dict[str, Any]]:
    """The records of files of a dataset (accepted, rejected, lost; default: accepted), one after the other."""
    paths = [dataset / f"{name}.jsonl" for name in names or ("accepted",)]
    return [orjson.loads(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def edit_records(dataset: Path, change: Callable[[dict[str, Any]], object], *files: str) -> None:
    """Change each record of the files (accepted, rejected), whose sums then fit again."""
    for name in files:
        records = records_of(dataset, name)
        for record in records:
            change(record)
        jsonl(dataset / f"{name}.jsonl", records)
    seal(dataset)


def edit_counts(dataset: Path, **counts: Any) -> None:
    """Change keys of accounting.json."""
    path = dataset / "accounting.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **counts}))
    seal(dataset)


def seal(dataset: Path) -> None:
    """Write SHA256SUMS anew, as merge would have for these files."""
    (dataset / "SHA256SUMS").unlink(missing_ok=True)
    write_sums(dataset, {})


def rewrite(path: Path, change: Any, **header: str) -> None:
    """Replace a result by one whose records went through `change`, with other values in its header."""
    records, known = read_result(path), read_summary(path)
    path.unlink()
    write_result(path, change(records), {key: known[key] for key in ("made_by", "pass", "shard")} | header)


def workers_of(run: Path) -> list[str]:
    """Command lines of the programs that stage shards of the run."""
    lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    return [line for line in lines if "dataset.staging" in line and str(run) in line]

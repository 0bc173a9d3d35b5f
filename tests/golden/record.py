"""Record what whole runs give: `python -m tests.golden.record [CASE...]` writes tests/golden/data/CASE.json.gz.

Contents are recorded and not bytes: records by id, counts, the Parquet schema, answers of commands, the words of
the page, exit codes. Record anew only when a difference is wanted, and say in the commit why.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kgqa_hpc.registry import shipped_plugins
from tests.golden.cases import CASES
from tests.golden.command import kgqa

DATA = Path(__file__).parent / "data"
EVALUATION = ("panel", "diversity")  # commands of the plugin evaluation
STATUSES = ("accepted", "rejected", "lost")
# Members of `--json` documents that tell of time, speed or this machine.
VOLATILE = {"plan": None, "status": {"complete", "items", "verdicts", "anchors", "passes", "stages"}}
UNITS = "ms|s|seconds?|minutes?|hours?|min|h|days?|d|items/s|tokens/s|GB|MB|KB"
TIMES = re.compile(rf"\d[\d.,]*\s*(?:{UNITS})\b|\b\d{{4}}-\d\d-\d\d[T ][\d:.+Z-]*")


def observe(case: str, folder: Path) -> dict[str, Any]:
    """Everything that is recorded of a case, made in an empty folder."""
    run = CASES[case](folder)
    dataset = dataset_of(run)
    seen = {
        "records": {status: _records(dataset, status) for status in STATUSES},
        "parquet": _schemas(dataset),
        "files": sorted(path.name for path in dataset.iterdir() if path.suffix != ".parquet"),
        "commands": dict(_commands(run)),
    }
    for name in ("dataset/accounting.json", "study/study.json"):
        if (run / name).exists():
            seen[name] = json.loads((run / name).read_text())
    if (run / "report/index.html").exists():
        seen["page"] = _words((run / "report/index.html").read_text())
    text = json.dumps(seen, ensure_ascii=False, sort_keys=True)
    return dict(json.loads(text.replace(str(folder), "FOLDER")))


def dataset_of(run: Path) -> Path:
    """The folder of a run's dataset; a combined dataset is its own folder."""
    return run / "dataset" if (run / "dataset").is_dir() else run


def _records(dataset: Path, status: str) -> dict[str, Any]:
    path = dataset / f"{status}.jsonl"
    if not path.exists():
        return {}
    found = [json.loads(line) for line in path.open(encoding="utf-8")]
    assert len({record["id"] for record in found}) == len(found)
    return {record["id"]: record for record in found}


def _schemas(dataset: Path) -> dict[str, Any]:
    """By status the columns with their types, and how many rows."""
    seen: dict[str, Any] = {}
    for path in sorted(dataset.rglob("*.parquet")):
        schema, name = pq.read_schema(path), re.sub(r"-\d{5}.*|\.parquet", "", str(path.relative_to(dataset)))
        entry = seen.setdefault(name, {"rows": 0, "columns": {}})
        entry["rows"] += pq.ParquetFile(path).metadata.num_rows
        entry["columns"].update({field.name: str(field.type) for field in schema})
    return seen


def _commands(run: Path) -> Iterator[tuple[str, Any]]:
    """The answers of the commands that report on a run."""
    ids = [next(iter(sorted(_records(run / "dataset", status))), None) for status in STATUSES]
    asked: list[tuple[str, list[Any]]] = [
        ("show", ["show", run, "-n", 3, "--json"]),
        ("show rejected", ["show", run, "--rejected", "-n", 3, "--json"]),
        ("status", ["status", run, "--json"]),
        ("kg stats", ["kg", "stats", run, "--json"]),
        ("plan", ["plan", run, "--json"]),
        ("panel", ["panel", run, "--json"]),
        ("diversity", ["diversity", run, "--topics", 2, "--json"]),
        ("messages", ["export", run, "--to", "messages", "--out", run.parent / "messages", "--json"]),
        ("an unknown item", ["explain", run, "none-such", "--json"]),
        ("an unknown group", ["show", run, "--group", "none such", "--json"]),
        ("merge again", ["merge", run]),
        ("a run that is not there", ["status", run / "nowhere"]),
        *(
            (f"explain {status}", ["explain", run, name, "--json"])
            for status, name in zip(STATUSES, ids, strict=True)
            if name
        ),
    ]
    for name, arguments in asked:
        if name in EVALUATION and "evaluation" not in shipped_plugins():
            continue
        done = kgqa(*arguments)
        document = json.loads(done.stdout) if done.exit_code == 0 and "--json" in arguments else None
        verb = str(arguments[0])
        if isinstance(document, dict) and verb in VOLATILE:
            kept = VOLATILE[verb]
            document = (
                sorted(document) if kept is None else {key: document[key] for key in document if key in kept}
            )
        yield name, {"exit": done.exit_code, "document": _steady(document), "message": done.message}


def _steady(value: Any) -> Any:
    """The document without members that tell of time."""
    if isinstance(value, dict):
        return {
            key: _steady(member)
            for key, member in value.items()
            if not re.search(r"seconds|_s$|latency|time|rate$|per_|pid|host|worker|size", str(key))
        }
    return [_steady(member) for member in value] if isinstance(value, list) else value


def _words(page: str) -> list[str]:
    """The lines that a reader of the page sees, without times and numbers of drawings."""
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page, flags=re.S)
    text = unescape(re.sub(r"<[^>]+>", "\n", text))
    lines = (TIMES.sub("TIME", " ".join(line.split())) for line in text.splitlines())
    return [line for line in lines if line]


def read(case: str) -> dict[str, Any]:
    """The recording of a case."""
    return dict(json.loads(gzip.decompress((DATA / f"{case}.json.gz").read_bytes())))


def main(names: list[str]) -> None:
    DATA.mkdir(exist_ok=True)
    for case in names or CASES:
        with tempfile.TemporaryDirectory() as scratch:
            seen = observe(case, Path(scratch))
        text = json.dumps(seen, ensure_ascii=False, sort_keys=True)
        (DATA / f"{case}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(case, {status: len(seen["records"][status]) for status in STATUSES}, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])

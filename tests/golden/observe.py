"""Everything that is recorded of a case, as one JSON document without times, speeds, versions and folders.

Contents are recorded and not bytes: records by id, counts, the Parquet schema, answers of commands, the words of the
card and of the page, exit codes. What is made steady, and nothing else: `steady` for all texts, STEADY for documents.
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kgqa_hpc import __version__
from tests.command import kgqa
from tests.golden.cases import CASES, Command

STATUSES = ("accepted", "rejected", "lost")
BLOCKS = re.compile(
    r"</?(?:h\d|p|div|section|article|main|header|footer|nav|ul|ol|li|dl|dt|dd|table|caption|tr|summary|details|pre"
    r"|figure|figcaption|label|option|select|button|br|hr|body|head|title)\b[^>]*>"
)
HEX = re.compile(r"\b[0-9a-f]{32}(?:[0-9a-f]{32})?\b")
SAMPLE = 3  # entries of each exported file


def observe(name: str, folder: Path) -> dict[str, Any]:
    """Make the case in an empty folder, run its commands, and return what both gave."""
    case = CASES[name]
    run = case.make(folder)
    dataset = run / "dataset" if (run / "dataset").is_dir() else run
    seen: dict[str, Any] = {
        "records": {status: read_records(dataset, status) for status in STATUSES},
        "parquet": _schemas(dataset),
        "files": sorted(path.name for path in dataset.iterdir() if path.suffix != ".parquet")
        if dataset.is_dir()
        else [],
    }
    for file in (dataset / "accounting.json", run / "study" / "study.json"):
        if file.exists():
            seen[file.stem] = json.loads(file.read_text(encoding="utf-8"))
    if (dataset / "README.md").exists():
        seen["card"] = _card((dataset / "README.md").read_text(encoding="utf-8"))
    if (run / "report" / "index.html").exists():
        seen["page"] = _words((run / "report" / "index.html").read_text(encoding="utf-8"))
    seen["commands"] = {command.name: _answer(command, run, folder) for command in case.commands(run)}
    text = json.dumps(seen, ensure_ascii=False)
    for fingerprint in sorted(set(re.findall(r'"run": "([0-9a-f]{64})"', text))):
        text = re.sub(rf"{fingerprint}|{fingerprint[:16]}", "RUN", text)
    return dict(json.loads(steady(text, folder)))


def steady(text: str, folder: Path) -> str:
    """The text without this folder, this Python and this version of the package."""
    text = re.sub(rf"(?:/private)?{re.escape(str(folder))}", "FOLDER", text)
    text = text.replace(sys.executable, "PYTHON")
    return re.sub(rf"(?<![\d.]){re.escape(__version__)}(?![\d.]*\d)", "VERSION", text)


def read_records(dataset: Path, status: str) -> dict[str, Any]:
    """The records of a JSON-lines file by their ids, or nothing where there is no such file."""
    path = dataset / f"{status}.jsonl"
    if not path.exists():
        return {}
    records = [json.loads(line) for line in path.open(encoding="utf-8")]
    by_id = {record["id"]: record for record in records}
    assert len(by_id) == len(records), f"{path}: an id occurs twice"
    return dict(sorted(by_id.items()))


def _schemas(dataset: Path) -> dict[str, Any]:
    """The columns of each part of the dataset with their types, and its number of rows."""
    seen: dict[str, Any] = {}
    for path in sorted(dataset.rglob("*.parquet")):
        schema = pq.read_schema(path)
        entry = seen.setdefault(re.sub(r"-\d{5}-of.*", "", path.stem), {"rows": 0, "columns": {}})
        entry["rows"] += pq.read_metadata(path).num_rows
        entry["columns"].update({field.name: _type(field.type) for field in schema})
    return seen


def _type(kind: pa.DataType) -> Any:
    """The type with the members of structures by their names."""
    if pa.types.is_struct(kind):
        return {field.name: _type(field.type) for field in kind}
    return [_type(kind.value_type)] if pa.types.is_list(kind) else str(kind)


def _answer(command: Command, run: Path, folder: Path) -> dict[str, Any]:
    ended = kgqa(*command.arguments, code=None)
    error = re.search(r"^error:.*", ended.stderr, re.S | re.M | re.I) if ended.returncode else None
    document: Any = ended.stdout.splitlines()
    if ended.stdout and "--json" in command.arguments:
        lines = [json.loads(line) for line in document] if command.lines else json.loads(ended.stdout)
        document = STEADY.get(command.verb, lambda same: same)(lines)
    said = _sorted_names(error[0].strip() if error else "").splitlines()
    answer = {"exit": ended.returncode, "document": document, "error": said}
    if command.out is not None and command.out.exists():
        answer["written"] = _samples(command.out)
    return answer


def _sorted_names(error: str) -> str:
    """The error with the names it lists in alphabetical order: plugins add theirs in any."""

    def in_order(listed: re.Match[str]) -> str:
        return listed[1] + ", ".join(sorted(listed[2].split(", ")))

    return re.sub(r"((?:known: |known are |there are ))([^/\n]*)", in_order, error)


def _samples(folder: Path) -> dict[str, Any]:
    """The first entries of each file under a folder."""
    return {
        str(path.relative_to(folder)): _entries(path)[:SAMPLE]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in (".parquet", ".html")
    }


def _entries(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        document = json.loads(text)
        return document if isinstance(document, list) else [document]
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    lines = text.splitlines()
    return [json.loads(line) for line in lines] if path.suffix == ".jsonl" else lines


def _status(document: dict[str, Any]) -> dict[str, Any]:
    times = dict.fromkeys(("rate", "time", "seconds_left"), "VOLATILE")
    return {**document, **times, "workers": sorted(document["workers"])}


def _plan(document: dict[str, Any]) -> dict[str, Any]:
    """The first two assumptions tell of the speed of this run, or of published speeds where it was too short."""
    speeds = dict.fromkeys(("gpu_hours", "wall_seconds"), "VOLATILE")
    return {**document, **speeds, "assumptions": document["assumptions"][2:]}


def _without(*names: str) -> Callable[[Any], Any]:
    """A function that marks members of these names, at any depth, as volatile."""

    def mark(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: "VOLATILE" if key in names else mark(member) for key, member in value.items()}
        return [mark(member) for member in value] if isinstance(value, list) else value

    return mark


# By verb: the document without members that tell of time and speed.
STEADY: dict[str, Callable[[Any], Any]] = {
    "status": _status,
    "plan": _plan,
    "preview": _without("seconds", "hours"),
    "index": _without(
        "indexing_cpu_seconds",
        "reading_cpu_seconds",
        "indexing_cpu_hours",
        "reading_cpu_hours",
        "index_bytes",
    ),
}


def _card(text: str) -> list[str]:
    """The lines of the card's body, sorted: fields may change their order. Its front matter holds sizes of files."""
    lines = HEX.sub("DIGEST", text.split("\n---\n", 1)[1]).splitlines()
    return sorted(line.rstrip(",") for line in lines if line)


def _words(page: str) -> list[str]:
    """The lines that a reader of the page sees, without drawings and times."""
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", page, flags=re.S)
    text = re.sub(r"<[^>]+>", " ", BLOCKS.sub("\n", text))
    return list(_page_lines(unescape(text)))


def _page_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        words = re.sub(r"\s+([.,;:)])", r"\1", " ".join(line.split()))
        if words and not re.search(r"items ended in .* pauses included", words):
            yield words

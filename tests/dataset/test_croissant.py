"""Croissant describes every file and every column, and its own validator has nothing to say."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgqa_hpc.dataset.files import sha256_of
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.fingerprint import write_manifest


def merged(run: Any) -> Path:
    run.finish()
    merge(run.folder, published=True)
    return run.folder.dataset


def test_every_file_is_described_with_its_checksum(make_run: Any) -> None:
    folder = merged(make_run())
    document = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    assert "http://mlcommons.org/croissant/1.1" in document["conformsTo"]
    assert document["datePublished"][:2] == "20"
    assert document["citeAs"]
    files = {one["@id"]: one for one in document["distribution"] if one["@type"] == "cr:FileObject"}
    described = {p.name for p in folder.iterdir()} - {"croissant.json", "README.md", "SHA256SUMS"}
    assert set(files) == described
    for name, entry in files.items():
        assert entry["sha256"] == sha256_of(folder / name)
        assert entry["contentSize"] == f"{(folder / name).stat().st_size} B"


def test_the_date_is_that_of_the_run_whenever_it_is_merged_and_no_record_holds_one(make_run: Any) -> None:
    run = make_run()
    made = replace(run.folder.manifest(), created="2001-02-03T04:05:06Z")
    write_manifest(run.folder.manifest_file, made)
    folder = merged(run)
    before = (folder / "croissant.json").read_bytes()
    assert json.loads(before)["datePublished"] == "2001-02-03"
    merge(run.folder, published=True)
    assert (folder / "croissant.json").read_bytes() == before
    dated = {path.name for path in folder.iterdir() if b"2001-02-03" in path.read_bytes()}
    assert dated == {"croissant.json"}


def test_every_column_is_described_nested_ones_too(make_run: Any) -> None:
    folder = merged(make_run())
    document = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    for records in document["recordSet"]:
        schema = pq.read_schema(folder / f"{records['name']}-00000-of-00001.parquet")
        names = set()
        for field in records["field"]:
            names |= set(leaves(field))
        assert names == {f"{records['name']}/{path}" for path in columns(schema)}


def leaves(field: dict[str, Any]) -> list[str]:
    inner = [name for sub in field.get("subField", ()) for name in leaves(sub)]
    return inner or [field["@id"]]


def columns(fields: Any, prefix: str = "") -> list[str]:
    found = []
    for field in fields:
        kind = field.type
        while pa.types.is_list(kind):
            kind = kind.value_type
        path = f"{prefix}{field.name}"
        found += columns(kind, f"{path}/") if pa.types.is_struct(kind) else [path]
    return found


def test_the_validator_of_mlcommons_finds_neither_error_nor_warning(make_run: Any) -> None:
    pytest.importorskip("mlcroissant")
    folder = merged(make_run())
    code = "from mlcroissant.scripts.validate import main; from absl import app; app.run(main)"
    command = [sys.executable, "-m", "mlcroissant.scripts.validate"]
    tool = Path(sys.executable).with_name("mlcroissant")
    command = [str(tool), "validate"] if tool.exists() else [sys.executable, "-c", code]
    done = subprocess.run(
        [*command, "--jsonld", str(folder / "croissant.json")], capture_output=True, text=True, check=False
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert done.returncode == 0, said
    assert [line for line in said if "Done." not in line] == []


def test_mlcroissant_reads_the_records(make_run: Any) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    folder = merged(make_run())
    dataset = mlcroissant.Dataset(str(folder / "croissant.json"))
    ids = [record["accepted/id"].decode() for record in dataset.records("accepted")]
    lines = (folder / "accepted.jsonl").read_text(encoding="utf-8").splitlines()
    assert ids == [json.loads(line)["id"] for line in lines]

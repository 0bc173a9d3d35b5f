"""The card is valid whatever a graph calls itself, and Croissant describes every file and column."""

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
import yaml

from kgqa_hpc.columns import Column
from kgqa_hpc.dataset.accounting import Accounting, OutcomeCounts
from kgqa_hpc.dataset.card import licence_fields, render_card, type_text
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.fingerprint import write_manifest
from tests.dataset.conftest import records_of

HPO = "https://hpo.jax.org/app/license"


@pytest.mark.parametrize(
    ("licence", "fields"),
    [
        ("CC BY 4.0", {"license": "cc-by-4.0"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        ("unknown", {"license": "unknown"}),
        (f"HPO licence ({HPO})", {"license": "other", "license_name": "hpo-licence", "license_link": HPO}),
        ("Ours & theirs", {"license": "other", "license_name": "ours-theirs"}),
        ("…", {"license": "other", "license_name": "unnamed"}),
    ],
)
def test_a_licence_is_an_identifier_of_the_hub_or_a_slug_with_its_link(
    licence: str, fields: dict[str, str]
) -> None:
    assert licence_fields(licence) == fields


def render(facts: Facts, accounting: Accounting, sample: dict[str, Any] | None = None) -> str:
    columns = (Column("id", "string", "The id | of it."), Column("edges", [["int64"]], "Edges."))
    return render_card(facts, accounting, columns, [], {}, sample)


def test_nothing_a_graph_says_about_itself_breaks_the_card() -> None:
    evil = 'a: "b"\n---\n# c | d {{ 1 }}'
    facts = Facts("f" * 64, 1, evil, "0.1", {"title": evil, "nodes": 12_345})
    accounting = Accounting({"shape 1": OutcomeCounts(sampled=2, accepted=1, pairs=2)}, shards=1)
    accounting.group("shape 1").rejected[evil] = 1
    accounting.lengths = {"z_score": None, "pairs": 2}
    text = render(facts, accounting, {"id": evil, "question": "```\n# not a fence"})
    front, body = text.removeprefix("---\n").split("\n---\n", 1)
    metadata = yaml.safe_load(front)
    assert metadata["license_name"] == "a-b-c-d-1"
    assert 'a: "b" --- # c | d {{ 1 }}' in metadata["pretty_name"]
    assert "| nodes | 12,345 |" in body
    assert 'a: "b" --- # c \\| d {{ 1 }} | 1 |' in body
    assert "No length filter was applied." in body
    assert "| `id` | string | The id \\| of it. |" in body
    assert body.count("```") == 4


def test_types_are_told_in_words() -> None:
    assert type_text([{"id": "string", "n": "int64"}]) == "list of {id: string, n: integer}"


def test_the_card_names_licence_fields_a_record_and_the_line_that_publishes_it(make_run: Any) -> None:
    """The prompts of the run lie beside it."""
    run = make_run(items=8, dataset={"licence": "CC0-1.0", "citation": "Doe 2026", "contact": "doe@x.org"})
    run.folder.prompts.mkdir(exist_ok=True)
    (run.folder.prompts / "ask.md").write_text("Ask.")
    run.finish()
    merge(run.folder)
    folder = run.folder.dataset
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "cc0-1.0"
    for words in (
        "| nodes after reduction | 300 |",
        "| `triples` | list of list of string |",
        '"question": "What links the nodes',
        "upload --repo-type dataset",
        "Cite: Doe 2026",
        "Contact: doe@x.org",
    ):
        assert words in text
    assert (folder / "prompts" / "ask.md").read_text() == "Ask."
    assert "prompts/ask.md" in (folder / "SHA256SUMS").read_text()


def test_croissant_describes_every_file_with_its_checksum(merged: Any) -> None:
    folder = merged[0].folder.dataset
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
    run.finish()
    merge(run.folder)
    folder = run.folder.dataset
    before = (folder / "croissant.json").read_bytes()
    assert json.loads(before)["datePublished"] == "2001-02-03"
    merge(run.folder)
    assert (folder / "croissant.json").read_bytes() == before
    dated = {path.name for path in folder.iterdir() if b"2001-02-03" in path.read_bytes()}
    assert dated == {"croissant.json"}


def test_every_column_is_described_nested_ones_too(merged: Any) -> None:
    folder = merged[0].folder.dataset
    document = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    for records in document["recordSet"]:
        schema = pq.read_schema(folder / f"{records['name']}-00000-of-00001.parquet")
        names = {name for field in records["field"] for name in leaves(field)}
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


def test_mlcroissant_finds_neither_error_nor_warning_and_reads_the_records(merged: Any) -> None:
    mlcroissant = pytest.importorskip("mlcroissant")
    folder = merged[0].folder.dataset
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
    dataset = mlcroissant.Dataset(str(folder / "croissant.json"))
    ids = [record["accepted/id"].decode() for record in dataset.records("accepted")]
    assert ids == [record["id"] for record in records_of(folder)]

"""The card is valid front matter and Markdown whatever a graph calls itself; Croissant is complete."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from kgqa_hpc.dataset.accounting import Accounting, Tally
from kgqa_hpc.dataset.card import Facts, licence_fields, render_card
from kgqa_hpc.dataset.merge import merge
from kgqa_hpc.store.canonical import sha256_of


@pytest.mark.parametrize(
    ("licence", "fields"),
    [
        ("CC BY 4.0", {"license": "cc-by-4.0"}),
        ("Apache-2.0", {"license": "apache-2.0"}),
        ("unknown", {"license": "unknown"}),
        ("HPO licence", {"license": "other", "license_name": "HPO licence"}),
    ],
)
def test_licences_the_hub_knows_are_named_as_it_names_them(licence: str, fields: dict[str, str]) -> None:
    assert licence_fields(licence) == fields


def test_nothing_a_graph_says_about_itself_breaks_the_card() -> None:
    evil = 'a: "b"\n---\n# c | d {{ 1 }}'
    facts = Facts("f" * 64, 1, evil, "0.1", {"title": evil, "nodes": 12_345})
    accounting = Accounting({1: Tally(sampled=2, accepted=1, parsed=2)}, shards=1)
    accounting.tally(1).rejected[evil] = 1
    accounting.lengths = {"z_score": None, "pairs": 2}
    front, body = render_card(facts, accounting).removeprefix("---\n").split("\n---\n", 1)
    metadata = yaml.safe_load(front)
    assert metadata["license_name"] == 'a: "b" --- # c | d {{ 1 }}'
    assert metadata["license_name"] in metadata["pretty_name"]
    assert "| nodes | 12,345 |" in body
    assert 'a: "b" --- # c \\| d {{ 1 }} | 1 |' in body
    assert "None was applied." in body


def test_the_card_names_graph_licence_and_configuration_wins(make_run: Any) -> None:
    run = make_run(items=8, dataset={"licence": "CC0-1.0"})
    run.finish()
    merge(run.folder)
    text = (run.folder.dataset / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "cc0-1.0"
    assert "| nodes after reduction | 300 |" in text


def test_croissant_describes_every_file_with_its_checksum_and_every_flat_column(make_run: Any) -> None:
    run = make_run()
    run.finish()
    merge(run.folder, published=True)
    folder = run.folder.dataset
    document = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    assert document["@type"] == "sc:Dataset"
    assert "http://mlcommons.org/croissant/1.0" in document["conformsTo"]
    files = {entry["@id"]: entry for entry in document["distribution"]}
    described = {p.name for p in folder.iterdir()} - {"croissant.json", "README.md", "SHA256SUMS"}
    assert set(files) == described
    for name, entry in files.items():
        assert entry["sha256"] == sha256_of(folder / name)
        assert entry["contentSize"] == f"{(folder / name).stat().st_size} B"
    for records in document["recordSet"]:
        columns = pq.read_schema(folder / f"{records['name']}.parquet").names
        for field in records["field"]:
            assert field["source"]["extract"]["column"] in columns
            assert field["source"]["fileObject"]["@id"] in files
        assert records["key"]["@id"] in {field["@id"] for field in records["field"]}

"""The card is valid whatever a graph calls itself, and Croissant describes every file and column."""

import csv
import io
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from kgqa_hpc.columns import Column
from kgqa_hpc.dataset.accounting import Accounting, OutcomeCounts
from kgqa_hpc.dataset.card import group_table, licence_fields, render_card
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
def test_a_licence_is_an_identifier_of_the_hub_or_slug_and_link(licence: str, fields: dict[str, str]) -> None:
    assert licence_fields(licence) == fields


def render(facts: Facts, accounting: Accounting, sample: dict[str, Any] | None = None) -> str:
    columns = (Column("id", "string", "The id | of it."), Column("edges", [["int64"]], "Edges."))
    return render_card(facts, accounting, columns, [], {}, sample)


def test_nothing_a_graph_says_about_itself_breaks_the_card() -> None:
    evil = 'a: "b"\n---\n# c | d {{ 1 }}'
    facts = Facts("f" * 64, 1, evil, "0.1", {"title": evil, "nodes": 12_345}, title=evil)
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


def test_the_card_names_licence_fields_a_record_and_the_line_that_publishes_it(make_run: Any) -> None:
    """The prompts of the run lie beside it."""
    run = make_run(items=8, dataset={"licence": "CC0-1.0", "citation": "Doe 2026", "contact": "doe@x.org"})
    run.folder.prompts.mkdir(exist_ok=True)
    (run.folder.prompts / "ask.md").write_text("Ask.")
    run.merge()
    folder = run.folder.dataset
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---\n")[1])["license"] == "cc0-1.0"
    for words in (
        "| nodes after reduction | 300 |",
        "| `triples` | list of list of string |",
        "| `nodes` | list of {id: string, name: string, type: string} |",
        "| `num_nodes` | integer |",
        '"question": "What links the nodes',
        "upload --repo-type dataset",
        "Cite: Doe 2026",
        "Contact: doe@x.org",
        "Licence: CC0-1.0.",  # of the dataset
        "| licence | unknown |",  # of the graph
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
    run.merge()
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
        schema = pq.ParquetFile(folder / f"{records['name']}-00000-of-00001.parquet").schema
        paths = {column.path.replace(".list.element", "").replace(".", "/") for column in schema}
        names = {name for field in records["field"] for name in leaves(field)}
        assert names == {f"{records['name']}/{path}" for path in paths}


def leaves(field: dict[str, Any]) -> list[str]:
    inner = [name for sub in field.get("subField", ()) for name in leaves(sub)]
    return inner or [field["@id"]]


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


# The figures of the paper (BioGraphletQA, Appendix F, Table 1).
# id, total, downsampling ratio, count, generated, accepted, acceptance in percent: as printed.
TABLE = """
1 2980635 3.35e-3 9954 9913 4544 45.8
2 3702 1.00 3702 3690 1744 47.3
3 50513861 1.98e-4 9826 9783 4149 42.4
4 41964954 2.38e-4 10108 10021 4475 44.7
5 3609661 2.77e-3 10165 10103 5325 52.7
6 71664 1.40e-1 9913 9810 4485 45.7
7 13537 7.39e-1 9939 9870 4365 44.2
8 11794 8.48e-1 10038 9948 5212 52.4
9 1080297928 9.26e-6 9988 9817 3485 35.5
10 1810874588 5.52e-6 9952 9806 3679 37.5
11 584613716 1.71e-5 10126 9939 4390 44.2
12 922997 1.08e-2 10078 9874 4144 42.0
13 772905 1.29e-2 10100 9885 3897 39.4
14 871384 1.15e-2 9946 9723 4275 44.0
15 46904 2.13e-1 10001 9823 3628 36.9
16 166337860 6.01e-5 9946 9841 5087 51.7
17 239193 4.18e-2 10143 9949 4459 44.8
18 6267 1.00 6267 6103 2725 44.7
19 225464 4.44e-2 10088 9878 3606 36.5
20 74698349 1.34e-4 9894 9781 5496 56.2
21 55278 1.81e-1 9878 9629 3281 34.1
22 79900 1.25e-1 10013 9846 4533 46.0
23 65548 1.53e-1 10031 9621 4629 48.1
24 11395 8.78e-1 9976 9741 4149 42.6
25 31145 3.21e-1 9989 9781 3759 38.4
26 5617 1.00 5617 5292 3036 57.4
27 3810 1.00 3810 3690 1647 44.6
28 18217 5.49e-1 10067 9577 5593 58.4
29 44022 2.27e-1 10019 9639 6059 62.9
"""
ROWS = [line.split() for line in TABLE.split("\n") if line]
UNREADABLE = 17_076  # verdicts of the paper that could not be read; spread over no shape in print


def fed() -> tuple[Facts, Accounting]:
    accounting = Accounting(shards=1)
    summary: list[dict[str, Any]] = []
    for shape, total, _, count, generated, accepted, _ in ROWS:
        pairs, kept, good = int(count), int(generated), int(accepted)
        rejected = Counter({"length": pairs - kept, "judge: invalid answer": kept - good})
        accounting.groups[f"shape {shape}"] = OutcomeCounts(
            pairs, good, rejected, pairs=pairs, outliers=pairs - kept
        )
        summary.append({"id": int(shape), "group": f"shape {shape}", "total": int(total)})
    return Facts("run", 42, "CC BY 4.0", "0", summary=summary), accounting


def test_every_ratio_is_the_printed_one() -> None:
    rows = list(csv.DictReader(io.StringIO(group_table(*fed()))))
    assert len(rows) == len(ROWS) == 29
    for row, (shape, total, ratio, count, generated, accepted, share) in zip(rows, ROWS, strict=True):
        known = (shape, total, count, generated, accepted)
        assert (row["id"], row["total"], row["count"], row["generated"], row["accepted"]) == known
        # The paper prints the chance it drew each graphlet with, 10,000 of all; ours is the share that was drawn.
        chance = min(1.0, 10_000 / int(total))
        assert f"{chance:.2e}" == f"{float(ratio):.2e}", f"shape {shape}"
        deviation = (int(total) * chance * (1 - chance)) ** 0.5 / int(total)
        assert abs(float(row["ratio"]) - chance) <= 4 * deviation, f"shape {shape}"
        # The paper cuts or rounds the last digit, as it comes.
        assert abs(100 * float(row["acceptance_ratio"]) - float(share)) < 0.1, f"shape {shape}"


def test_the_totals_are_those_of_the_paper() -> None:
    _, accounting = fed()
    accounting.check()
    total = accounting.total
    assert total.sampled == 269_574
    assert total.generated == 264_373
    assert total.accepted == 119_856
    assert round(100 * total.accepted / total.generated, 1) == 45.3
    assert round(100 * total.accepted / (total.generated - UNREADABLE), 1) == 48.5

"""`kgqa hydrate` on a run: names, report, and what it refuses."""

import json
from functools import partial

import pytest

from kgqa_hpc.kg.file import read_graph
from tests.command import kgqa

OREGANO = "COMPOUND:2\tr\tGENE:1\nCOMPOUND:3\tr\tGENE:2\nCOMPOUND:2\thas_code\tB1\n"
RECIPE = """classes:
  compound: {table: COMPOUND.tsv, names: [{space: pubchem, column: PUBCHEM}]}
  gene: {table: GENES.tsv, names: [{space: ncbi, column: NCBI}]}
spaces:
  pubchem: {table: pubchem.tsv, prefixes: [CID], date: "2024-12-03", licence: public domain}
  ncbi: {licence: x, resolver: {url: "%s", name: [name], per_second: 100, attempts: 1}}
"""


def imported(tables, name, setting):
    """A run with the graph of the folder."""
    graph = f"graph: {{source: oregano, path: {tables}, {setting}}}"
    (tables / f"{name}.yaml").write_text(f"{graph}\nengine: {{kind: scripted}}\n", encoding="utf-8")
    kgqa("init", tables / f"{name}.yaml", tables / name)
    kgqa("import", tables / name)
    return tables / name


@pytest.fixture
def run(tables, service):
    (tables / "OREGANO_V2.1.tsv").write_text(OREGANO, encoding="utf-8")
    (tables / "recipe.yaml").write_text(RECIPE % service.url, encoding="utf-8")
    return imported(tables, "run", "min_degree: 1")


@pytest.fixture
def hydrated(run, tables):
    """What `kgqa hydrate` says of the run, by the recipe."""
    return partial(kgqa, "hydrate", run, "--recipe", tables / "recipe.yaml")


def test_a_run_is_hydrated_and_reports_its_coverage(run, hydrated):
    report = json.loads(hydrated("--web", "--json").stdout)
    assert report["classes"]["gene"]["by_space"] == {"ncbi": 2}
    assert report == json.loads((run / "stats" / "hydration.json").read_text(encoding="utf-8"))
    assert read_graph(run / "kg.h5").names.tolist() == ["Imatinib", "gene 100", "", "gene 200", ""]
    before = (run / "kg.h5").read_bytes()
    text = hydrated().stdout
    assert "gene" in text
    assert "ids have several names" in text
    assert (run / "kg.h5").read_bytes() == before
    kgqa("import", run)  # it is still this run's own graph, and kept
    assert (run / "kg.h5").read_bytes() == before


def test_names_at_import_come_from_local_tables_alone(run, tables, service):
    named = imported(tables, "run2", "hydrate: recipe.yaml")
    assert "Imatinib" in read_graph(named / "kg.h5").names.tolist()
    assert service.asked == []


def test_a_service_that_does_not_answer_ends_early_with_all_else_kept(run, hydrated, service):
    service.mood["100"] = "fails"
    assert "1 ids got no answer" in hydrated("--web", code=75).stderr
    assert "gene 200" in read_graph(run / "kg.h5").names.tolist()


def test_names_do_not_change_under_anchors_that_were_drawn(run, hydrated):
    (run / "anchors.h5").write_bytes(b"anchors")
    assert "anchors with the old names were drawn already" in hydrated(code=2).stderr


def test_without_a_recipe_it_is_asked_for(run):
    assert "which recipe" in kgqa("hydrate", run, code=2).stderr

"""`kgqa hydrate` on a run: names, report, and what it refuses."""

import json

import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.errors import InputError, StoppedEarly
from kgqa_hpc.kg.file import read_graph

OREGANO = "COMPOUND:2\tr\tGENE:1\nCOMPOUND:3\tr\tGENE:2\nCOMPOUND:2\thas_code\tB1\n"
RECIPE = """classes:
  compound: {table: COMPOUND.tsv, names: [{space: pubchem, column: PUBCHEM}]}
  gene: {table: GENES.tsv, names: [{space: ncbi, column: NCBI}]}
spaces:
  pubchem: {table: pubchem.tsv, prefixes: [CID], date: "2024-12-03", licence: public domain}
  ncbi: {licence: x, resolver: {url: "%s", name: [name], per_second: 100, attempts: 1}}
"""


def _kgqa(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def run(tables, service):
    (tables / "OREGANO_V2.1.tsv").write_text(OREGANO, encoding="utf-8")
    (tables / "recipe.yaml").write_text(RECIPE % service.url, encoding="utf-8")
    (tables / "c.yaml").write_text(
        f"graph: {{source: oregano, path: {tables}, min_degree: 1}}\nengine: {{kind: scripted}}\n",
        encoding="utf-8",
    )
    assert _kgqa("init", tables / "c.yaml", tables / "run").exit_code == 0
    assert _kgqa("import", tables / "run").exit_code == 0
    return tables / "run"


def test_a_run_is_hydrated_and_reports_its_coverage(run, tables):
    result = _kgqa("hydrate", run, "--recipe", tables / "recipe.yaml", "--web", "--json")
    report = json.loads(result.stdout)
    assert report["classes"]["gene"]["by_space"] == {"ncbi": 2}
    assert report == json.loads((run / "stats" / "hydration.json").read_text(encoding="utf-8"))
    assert read_graph(run / "kg.h5").names.tolist() == ["Imatinib", "gene 100", "", "gene 200", ""]
    before = (run / "kg.h5").read_bytes()
    text = _kgqa("hydrate", run, "--recipe", tables / "recipe.yaml").stdout
    assert "gene" in text
    assert "ids have several names" in text
    assert (run / "kg.h5").read_bytes() == before
    assert _kgqa("import", run).exit_code == 0  # it is still this run's own graph, and kept
    assert (run / "kg.h5").read_bytes() == before


def test_names_at_import_come_from_local_tables_alone(run, tables, service):
    (tables / "c2.yaml").write_text(
        f"graph: {{source: oregano, path: {tables}, hydrate: recipe.yaml}}\nengine: {{kind: scripted}}\n",
        encoding="utf-8",
    )
    assert _kgqa("init", tables / "c2.yaml", tables / "run2").exit_code == 0
    assert _kgqa("import", tables / "run2").exit_code == 0
    assert "Imatinib" in read_graph(tables / "run2" / "kg.h5").names.tolist()
    assert service.asked == []


def test_a_service_that_does_not_answer_ends_early_with_all_else_kept(run, tables, service):
    service.mood["100"] = "fails"
    with pytest.raises(StoppedEarly, match="1 ids got no answer"):
        _kgqa("hydrate", run, "--recipe", tables / "recipe.yaml", "--web")
    assert "gene 200" in read_graph(run / "kg.h5").names.tolist()


def test_names_do_not_change_under_anchors_that_were_drawn(run, tables):
    (run / "anchors.h5").write_bytes(b"anchors")
    with pytest.raises(InputError, match="anchors with the old names were drawn already"):
        _kgqa("hydrate", run, "--recipe", tables / "recipe.yaml")


def test_without_a_recipe_it_is_asked_for(run):
    with pytest.raises(InputError, match="which recipe"):
        _kgqa("hydrate", run)

"""A graph file that is edited after it was read is noticed and named; the old and the new graph are never mixed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kgqa_hpc import stages
from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, InputError
from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.kg.settings import graph_files, load_graph, recorded
from kgqa_hpc.runs import open_run
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import kgqa
from tests.dataset.conftest import contents
from tests.project import PATHS, write_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    stages.init(write_project(tmp_path, PATHS), tmp_path / "run")
    stages.import_graph(tmp_path / "run")
    stages.sample(tmp_path / "run")
    return tmp_path


def rename_node(project: Path, *, same_size: bool = True) -> None:
    path = project / "nodes.csv"
    new = "ENTITY 5," if same_size else "another name,"
    path.write_text(path.read_text().replace("entity 5,", new), encoding="utf-8")


def answered(project: Path) -> Path:
    stages.run_workers(project / "run")
    return project / "run"


@pytest.mark.parametrize("verb", [stages.sample, stages.run_workers])
def test_before_the_first_answer_the_edited_file_is_named_with_the_way_to_read_it_anew(
    project: Path, verb: Callable[[Path], object]
) -> None:
    rename_node(project)
    with pytest.raises(FingerprintMismatch, match=r"nodes\.csv was changed") as caught:
        verb(project / "run")
    assert f"kgqa import {project / 'run'}" in (caught.value.cure or "")


def test_import_reads_it_anew_and_sets_the_old_graph_and_sample_aside(project: Path) -> None:
    run = RunFolder.open(project / "run")
    rename_node(project)
    stages.import_graph(run.path)
    assert "ENTITY 5" in read_graph(run.kg).names.tolist()
    assert not run.anchors.exists()
    assert {path.name.split("-")[0] for path in run.quarantine.glob("*.reason.json")}
    stages.sample(run.path)
    answered(project)
    assert stages.merge(run.path).to_dict()["sampled"] == 20


def test_with_answers_all_that_adds_to_the_run_refuses_and_looking_at_it_goes_on(
    project: Path,
) -> None:
    run = answered(project)
    stages.merge(run)
    before = contents(run)
    rename_node(project)
    for refused in (stages.import_graph, stages.sample, stages.run_workers):
        with pytest.raises(FingerprintMismatch, match=r"nodes\.csv was changed since .* imported the graph"):
            refused(run)
    said = kgqa("all", project / "run.yaml", run, code=2).stderr
    assert said.startswith("error: ")
    assert str(project / "nodes.csv") in said
    assert said.count("\n") == 2, "the error, and what to do"
    assert contents(run) == before
    assert stages.merge(run).to_dict()["sampled"] == 20
    card = (run / "dataset" / "README.md").read_text(encoding="utf-8")
    assert f"| read from nodes.csv | sha256 {recorded(RunFolder(run))['nodes.csv']['sha256']} |" in card
    kgqa("status", run)


def test_a_file_that_is_gone_or_only_touched_or_put_back_does_not_matter(project: Path) -> None:
    run = answered(project)
    old = (project / "nodes.csv").read_bytes()
    results = contents(run / "results")
    os.utime(project / "nodes.csv", (1, 1))
    stages.run_workers(run)
    rename_node(project)
    (project / "nodes.csv").write_bytes(old)
    stages.run_workers(run)
    (project / "nodes.csv").unlink()
    stages.run_workers(run)
    assert contents(run / "results") == results


@pytest.mark.plugin("biokg")
def test_files_in_a_folder_and_the_recipe_are_looked_at_too(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).write_text(":ID,name,:LABEL\n" if name == "a.csv" else ":START_ID,:END_ID,:TYPE\n")
    (tmp_path / "names.yaml").write_text("classes: {A: {names: [{space: given}]}}")
    graph = "{source: neo4j, path: graph, hydrate: names.yaml}"
    (tmp_path / "run.yaml").write_text(f"graph: {graph}\nengine: {{kind: scripted}}\n")
    stages.init(tmp_path / "run.yaml", tmp_path / "run")
    _, config = open_run(tmp_path / "run")
    assert config.graph is not None
    assert set(graph_files(config.graph)) == {"graph/a.csv", "graph/b.csv", "names.yaml"}


def test_a_file_that_changes_while_read_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder.open(project / "run")
    rename_node(project)

    def edited_meanwhile(config: object) -> object:
        graph = load_graph(config)  # type: ignore[arg-type]
        rename_node(project, same_size=False)
        (project / "nodes.csv").write_text((project / "nodes.csv").read_text() + "\n")
        return graph

    monkeypatch.setattr("kgqa_hpc.kg.settings.load_graph", edited_meanwhile)
    with pytest.raises(InputError, match="while it was read"):
        stages.import_graph(run.path)
    assert not run.kg.exists()


def test_a_run_of_before_compares_nothing_and_a_damaged_list_is_told(project: Path) -> None:
    run = RunFolder.open(answered(project))
    assert set(recorded(run)) == {"nodes.csv", "edges.csv"}
    run.graph_files.write_bytes(run.graph_files.read_bytes().replace(b"nodes.csv", b"nodez.csv"))
    with pytest.raises(CorruptFile, match=r"graph_files\.json"):
        stages.run_workers(run.path)
    run.graph_files.unlink()
    rename_node(project)
    stages.run_workers(run.path)

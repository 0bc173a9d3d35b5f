"""kgqa init finds all that is missing at once; what an existing run refuses is never followed by a silent merge."""

import json
import re
from pathlib import Path

import pytest

from kgqa_hpc import stages
from kgqa_hpc.config import load_config
from kgqa_hpc.errors import ConfigError, FingerprintMismatch, InputError
from kgqa_hpc.run import Run
from kgqa_hpc.runs import open_run
from kgqa_hpc.runs.checks import load_ready, notes
from kgqa_hpc.trials.preview import preview
from tests.command import kgqa
from tests.dataset.conftest import contents
from tests.project import write_project


def written(folder: Path, **document: object) -> Path:
    path = folder / "run.yaml"
    path.write_text(json.dumps({"engine": {"kind": "scripted"}, **document}))
    return path


def records(folder: Path, **more: object) -> Path:
    line = {"id": "r1", "question": "Which?", "answer": "That."}
    (folder / "records.jsonl").write_text(json.dumps(line) + "\n")
    anchors = {"kind": "records", "from": "records.jsonl"}
    return written(folder, anchors=anchors, passes=[{"name": "main", "steps": ["judge"]}], **more)


def test_a_column_that_no_record_has_is_told_together_with_wrong_settings(tmp_path: Path) -> None:
    path = records(
        tmp_path,
        seeds=7,
        dataset={"order": "lenght", "split": {"by": "topic", "shares": {"a": 0.5, "b": 0.5}}},
    )
    with pytest.raises(ConfigError) as caught:
        load_ready(path)
    for key in ("seeds", "dataset.order", "dataset.split.by"):
        assert f"{path}: {key}: " in caught.value.message, key
    kindless = json.loads(path.read_text()) | {"anchors": {"kind": "recrods"}}
    path.write_text(json.dumps(kindless))
    with pytest.raises(ConfigError) as caught:
        load_ready(path)
    assert "anchors" in caught.value.message
    assert "dataset.order" not in caught.value.message  # the columns of the kind are unknown


# How each line begins that is told of the configuration below, without its folder.
WRONG = """\
graph.min_degre: unknown key, did you mean min_degree?
engine.temperature: unknown key
passes.0.steps.2.strict: unknown key
dataset.z_score: must be a number
seeds: unknown key
dataset.decide: 'panel' is no judge of this run
"""
MISSING = """\
graph.nodes: nodes.csv does not exist
graph.edges: a.csv does not exist
graph.edges: b.csv does not exist
graph.hydrate: recipe.yaml does not exist
dataset.decontaminate.0: test.jsonl does not exist
engine.model: models/none.gguf does not exist
passes.0.steps.0.prompt: prompt p55: no such prompt, did you mean p5?
passes.0.steps.1.prompt: prompt strict: no such prompt
"""


@pytest.mark.parametrize("wrong", [False, True])
def test_all_that_is_missing_is_told_at_once_and_after_what_is_wrong(tmp_path: Path, wrong: bool) -> None:
    def mistaken(**keys: object) -> dict[str, object]:
        return keys if wrong else {}

    steps = [{"use": "generate", "prompt": "p55"}, {"use": "judge", "as": "b", "prompt": "strict"}]
    tables = {"nodes": "nodes.csv", "edges": ["a.csv", "b.csv"], "hydrate": "recipe.yaml"}
    path = written(
        tmp_path,
        graph={"source": "csv", **tables, **mistaken(min_degre=2)},
        engine={"kind": "cpu", "model": "models/none.gguf", **mistaken(temperature=0.2)},
        passes=[{"name": "main", "steps": [*steps, {"use": "judge", **mistaken(strict=1)}]}],
        dataset={"decontaminate": ["test.jsonl"], **mistaken(z_score="high", decide={"judges": ["panel"]})},
        **mistaken(seeds=7),
    )
    with pytest.raises(ConfigError) as caught:
        load_ready(path)
    lines = caught.value.message.replace(f"{tmp_path}/", "").splitlines()
    for line, told in zip(lines, ((WRONG if wrong else "") + MISSING).splitlines(), strict=True):
        assert line.startswith(f"run.yaml: {told}")


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"split": {"shares": {"train": 0.9, "test": 0.1}}}, "split.by: records of kind hub have no column nodes"),
        ({"split": {"by": "sequence_cluster"}}, "split.by: records of kind hub have no column sequence"),
        ({"order": "groups"}, "order: records of kind hub have no column groups, did you mean group?"),
        ({"debias": {"columns": ["kind", "x.y"], "number": 3}}, "debias.columns: records of kind hub have no column x"),
    ],
)  # fmt: skip
def test_a_column_that_no_record_will_have_is_refused_before_the_work(
    tmp_path: Path, dataset: dict[str, object], message: str
) -> None:
    hubs = written(tmp_path, anchors={"kind": "hub", "number": 5}, dataset=dataset)
    with pytest.raises(ConfigError, match=re.escape(f"dataset.{message}")):
        stages.init(hubs, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_columns_that_records_have_are_no_problem(tmp_path: Path) -> None:
    dataset = {"order": "provenance.run", "debias": {"columns": ["features.x"], "number": 3}}
    stages.init(written(tmp_path, dataset={**dataset, "split": {}}), tmp_path / "graphlets")
    stages.init(records(tmp_path, dataset={**dataset, "split": {"by": "source_id"}}), tmp_path / "records")
    assert all((tmp_path / name / "manifest.json").exists() for name in ("graphlets", "records"))


def test_a_package_that_workers_need_is_only_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kgqa_hpc.settings.find_spec", lambda name: None)
    path = records(tmp_path, engine={"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"})
    assert len(notes(load_config(path))) == 2
    stages.init(path, tmp_path / "run")
    told = capsys.readouterr().err
    assert "note: engine: the package aiohttp is not installed here: pip install 'kgqa_hpc[openai]'" in told
    assert "note: matplotlib" in told


NEAR = "dataset.duplicates.near: the package rensa is not installed here: pip install 'kgqa_hpc[duplicates]'"


@pytest.fixture
def without_rensa(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgqa_hpc.settings.find_spec", lambda name: None if name == "rensa" else name)


@pytest.mark.usefixtures("without_rensa")
def test_a_package_that_merge_needs_is_told_by_init_preview_and_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = records(tmp_path, dataset={"duplicates": {"near": 0.9}})
    stages.init(path, tmp_path / "run")
    assert f"note: {NEAR}" in capsys.readouterr().err
    stages.sample(tmp_path / "run")
    stages.run_workers(tmp_path / "run")
    assert f"note: {NEAR}" in capsys.readouterr().err
    preview(load_config(path), 1)
    assert f"note: {NEAR}" in capsys.readouterr().err


@pytest.mark.usefixtures("without_rensa")
def test_all_stages_at_once_do_not_begin_without_a_package_that_merge_needs(tmp_path: Path) -> None:
    path = records(tmp_path, dataset={"duplicates": {"near": 0.9}})
    assert f"error: {NEAR}" in kgqa("all", path, tmp_path / "run", code=2).stderr
    assert not (tmp_path / "run" / "anchors.h5").exists()


def test_a_preview_needs_its_packages_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgqa_hpc.settings.find_spec", lambda name: None)
    path = written(tmp_path, graph={"source": "hpo"}, anchors={"kind": "puzzle"}, engine={"kind": "cpu"})
    with pytest.raises(InputError) as caught:
        preview(load_config(path), 1)
    lines = caught.value.message.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["graph", "anchors", "engine"]
    assert [line.rpartition("kgqa_hpc")[2] for line in lines] == ["[hpo]'", "[puzzles]'", "[cpu]'"]


def test_a_run_nobody_worked_on_takes_over_another_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stages.init(records(tmp_path, seed=1), folder)
    stages.sample(folder)
    stages.init(records(tmp_path, seed=2, prompts={"judge": "demo_filter"}), folder)
    run, config = open_run(folder)
    assert config.seed == 2
    assert [path.stem for path in run.prompts.iterdir()] == ["demo_filter"]
    stages.sample(folder)
    stages.run_workers(folder)
    assert stages.merge(folder).to_dict()["sampled"] == 1


TEXT = """graph: {source: csv, edges: edges.csv, min_degree: 0}
anchors: {per_shape: 2, shapes: [1]}
engine: {kind: scripted, accept: 1.0}
passes: [{name: main, steps: [generate, judge]}]
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.from_config(write_project(tmp_path, TEXT, nodes=9, edges=20), tmp_path / "run").work()


def _config(run: Run, text: str) -> Path:
    file = run.path.parent / "other.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "error"),
    [(TEXT + "seed: 7\n", FingerprintMismatch), (TEXT + "dataset: {splt: 1}\n", ConfigError)],
)
def test_a_plain_merge_after_a_refused_configuration_says_which_and_merges_nothing(
    run: Run, text: str, error: type[InputError]
) -> None:
    file = _config(run, text)
    before = contents(run.path)
    with pytest.raises(error):
        Run.from_config(file, run.path).all()
    (run.path / "refused.json").rename(file.with_suffix(".json"))
    assert contents(run.path) == before
    file.with_suffix(".json").rename(run.path / "refused.json")
    with pytest.raises(InputError, match="nothing merged, because this run refused") as refusal:
        stages.merge(run.path)
    assert str(file) in refusal.value.message
    assert "--as-recorded" in refusal.value.cure
    with pytest.raises(InputError, match="nothing merged"):
        stages.merge(run.path, shared=True)
    assert not (run.path / "dataset").exists()
    assert Run(run.path).merge(as_recorded=True).total.sampled == 2
    assert Run(run.path).merge().total.sampled == 2, "asked for once"


def test_an_accepted_change_ends_the_refusal(run: Run) -> None:
    with pytest.raises(ConfigError):
        Run.from_config(run.path.parent / "typo.yaml", run.path)
    with pytest.raises(InputError, match=r"typo\.yaml"):
        run.merge()
    with pytest.raises(ConfigError, match="z_scor"):
        run.merge(z_scor=None)
    with pytest.raises(InputError, match=r"typo\.yaml"):
        run.merge()
    run.merge(z_score=None)
    with pytest.raises(FingerprintMismatch):
        stages.init(_config(run, TEXT + "seed: 7\n"), run.path)
    stages.init(run.path.parent / "run.yaml", run.path)
    stages.merge(run.path)


def test_the_own_file_may_name_a_judge_that_was_added_later(run: Run) -> None:
    run.judge("filter", name="second")
    named = TEXT + "dataset: {decide: {judges: [second], rule: all}}\n"
    Run.from_config(_config(run, named), run.path).all()
    assert run.config.dataset.decide.judges == ["second"]
    with pytest.raises(ConfigError, match="'third' is no judge of this run; its judges: judge, second"):
        stages.init(_config(run, named.replace("second", "third")), run.path)
    with pytest.raises(ConfigError, match="'second' is no judge of this run; its judges: judge"):
        stages.init(_config(run, named), run.path.with_name("new"))

"""A configuration that an existing run refuses is never followed by a silent merge with the recorded settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc import stages
from kgqa_hpc.errors import ConfigError, FingerprintMismatch, InputError
from kgqa_hpc.run import Run
from tests.project import write_graph

TEXT = """graph: {source: csv, edges: edges.csv, min_degree: 0}
anchors: {per_shape: 2, shapes: [1]}
engine: {kind: scripted, accept: 1.0}
passes: [{name: main, steps: [generate, judge]}]
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    write_graph(tmp_path, nodes=9, edges=20)
    (tmp_path / "run.yaml").write_text(TEXT)
    return Run.from_config(tmp_path / "run.yaml", tmp_path / "run").work()


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
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(error):
        Run.from_config(file, run.path).all()
    (run.path / "refused.json").rename(file.with_suffix(".json"))
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
    file.with_suffix(".json").rename(run.path / "refused.json")
    with pytest.raises(InputError, match="nothing merged, because this run refused") as refusal:
        stages.merge(run.path)
    assert str(file) in refusal.value.message
    assert "--as-recorded" in refusal.value.cure
    with pytest.raises(InputError, match="nothing merged"):
        stages.merge_shared(run.path)
    assert not (run.path / "dataset").exists()
    assert Run(run.path).merge(as_recorded=True).total.sampled == 2
    assert Run(run.path).merge().total.sampled == 2, "asked for once"


def test_an_accepted_change_ends_the_refusal(run: Run) -> None:
    with pytest.raises(ConfigError):
        Run.from_config(run.path.parent / "typo.yaml", run.path)
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

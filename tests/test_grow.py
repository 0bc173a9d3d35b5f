"""A run grows by a judge or by anchors, and nothing that was there changes a byte."""

import csv
import json
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kgqa_hpc import stages
from kgqa_hpc.errors import EngineConfigError, FingerprintMismatch, InputError, StoppedEarly
from kgqa_hpc.run import Run
from kgqa_hpc.runs import add_pass, change_dataset, open_for_work, open_run, sampling
from kgqa_hpc.runs.open import alone
from kgqa_hpc.runs.sampling import extend
from kgqa_hpc.stages import standing
from kgqa_hpc.status.render import render
from kgqa_hpc.status.snapshot import runs_below
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.work.run import run_command
from tests.command import kgqa
from tests.dataset.conftest import records_of
from tests.project import write_project
from tests.store.conftest import at_once


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run, which no test changes."""
    folder = tmp_path_factory.mktemp("made")
    text = (
        "graph: {source: csv, nodes: nodes.csv, edges: edges.csv}\n"
        "anchors: {per_shape: 4, shapes: [1, 3, 4]}\n"
        "engine: {kind: scripted, accept: 0.6}\n"
        "dataset: {z_score: null}\n"
        "runtime: {shard_size: 5}\n"
    )
    Run.from_config(write_project(folder, text, nodes=40, edges=110, seed=3), folder / "run").all()
    return folder


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True)) / "run"


def work_of(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (*run.glob("results/*/*.h5"), *run.glob("shards/*.h5"))}


def outcomes(run: Path) -> dict[str, tuple[bool, list[str]]]:
    records = records_of(run / "dataset", "accepted", "rejected")
    return {record["id"]: (record["accepted"], sorted(record["verdicts"])) for record in records}


def test_one_more_judge_is_asked_about_every_pair_and_every_earlier_byte_stays(finished: Path) -> None:
    before, first = work_of(finished), outcomes(finished)
    settings = {"name": "strict", "steps": [{"use": "judge", "prompt": "filter", "as": "strict"}]}
    add_pass(finished, settings)
    run_command(finished)
    counts = stages.merge(finished)
    assert before.items() <= work_of(finished).items()
    assert all(verdicts == ["judge", "strict"] for _, verdicts in outcomes(finished).values())
    assert counts.total.sampled == len(outcomes(finished)) == len(first)
    refused = {name for name, (accepted, _) in first.items() if not accepted}
    assert refused <= {name for name, (accepted, _) in outcomes(finished).items() if not accepted}


def test_the_rule_of_the_panel_may_change_without_asking_anybody_again(finished: Path) -> None:
    add_pass(finished, {"name": "b", "steps": [{"use": "judge", "as": "b"}]})
    add_pass(finished, {"name": "c", "steps": [{"use": "judge", "as": "c"}]})
    run_command(finished)
    before = work_of(finished)

    def accepted(**rule: Any) -> int:
        return int(Run(finished).merge(decide=rule).total.accepted)

    every, most, one = accepted(rule="all"), accepted(rule="majority"), accepted(rule="at_least", at_least=1)
    first = accepted(judges=["judge"])
    assert every < most < one
    assert every <= first <= one
    assert accepted(rule="weighted", weights={"judge": 3, "b": 1, "c": 1}) == first, "it outweighs the others"
    assert work_of(finished) == before


def test_the_same_pass_twice_is_the_same_as_once_and_another_of_that_name_is_refused(finished: Path) -> None:
    settings = {"name": "b", "steps": [{"use": "judge", "as": "b"}]}
    add_pass(finished, settings)
    manifest = (finished / "manifest.json").read_bytes()
    add_pass(finished, settings)
    assert (finished / "manifest.json").read_bytes() == manifest
    run_command(finished)
    with pytest.raises(InputError, match="another pass 'b'"):
        add_pass(finished, {"name": "b", "steps": [{"use": "judge", "as": "b", "gate": True}]})
    with pytest.raises(InputError, match="another pass 'main'"):  # the one that writes the questions
        Run(finished).judge("filter", name="main")


def test_a_judge_whose_server_is_not_there_changes_nothing_and_one_that_never_answered_is_replaced(
    finished: Path,
) -> None:
    before = {name: (finished / name).read_bytes() for name in ("config.yaml", "manifest.json")}
    dead = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(EngineConfigError, match="Cannot connect"):
        Run(finished).judge("filter", name="b", engine=dead)
    assert {name: (finished / name).read_bytes() for name in before} == before
    add_pass(
        finished, {"name": "b", "engine": dead, "steps": [{"use": "judge", "prompt": "filter", "as": "b"}]}
    )
    alive = {"kind": "scripted", "accept": 0.5}
    killed = mock.patch.object(RunFolder, "grow", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):  # between the removal and the addition
        Run(finished).judge("filter", name="b", engine=alive)
    Run(finished).judge("filter", name="b", engine=alive).merge()
    assert all(verdicts == ["b", "judge"] for _, verdicts in outcomes(finished).values())


def test_a_larger_sample_contains_the_old_one_and_keeps_its_answers(finished: Path) -> None:
    before, first = work_of(finished), set(outcomes(finished))
    assert extend(finished, 9).anchors == 27
    run_command(finished)
    counts = stages.merge(finished)
    assert before.items() <= work_of(finished).items()
    assert first < set(outcomes(finished))
    assert counts.total.sampled == 27
    with pytest.raises(InputError, match=r"anchors\.per_shape is 9 already"):
        extend(finished, 9)
    assert extend(finished, 12).anchors == 36
    run_command(finished)
    assert stages.merge(finished).total.sampled == 36
    with (finished / "stats" / "graphlets.csv").open() as file:
        assert sum(int(row["sampled"]) for row in csv.DictReader(file)) == 36


def test_a_smaller_number_in_the_file_is_refused_unless_the_run_was_extended(finished: Path) -> None:
    """Else who lowers it and repeats the command pays for the larger number."""
    text = (finished.parent / "run.yaml").read_text()
    fewer = finished.parent / "fewer.yaml"
    fewer.write_text(text.replace("per_shape: 4", "per_shape: 3"))
    refused = kgqa("all", fewer, finished, code=2)
    assert "per_shape: 4 → 3" in refused.stderr
    kgqa("extend", finished, "--per-shape", "6")
    kgqa("init", finished.parent / "run.yaml", finished)
    assert RunFolder(finished).config()["anchors"]["per_shape"] == 6


def test_a_number_of_anchors_is_not_taken_for_one_of_each_shape(finished: Path) -> None:
    refused = kgqa("extend", finished, "--number", 20, code=2).stderr
    assert "kind graphlet are counted by --per-shape N" in refused
    assert RunFolder(finished).config()["anchors"]["per_shape"] == 4


@pytest.mark.parametrize("verb", ["judge", "extend"])
def test_a_growth_stopped_before_the_manifest_is_told_with_the_command_to_repeat(
    finished: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    words = {"judge": ("--prompt", "filter", "--name", "second"), "extend": ("--per-shape", "9")}[verb]
    killed = mock.Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("kgqa_hpc.store.run_folder.write_manifest", killed)
    kgqa(verb, finished, *words, code=130)
    monkeypatch.undo()
    said = kgqa("run", finished, code=2).stderr
    assert "the command that did it was stopped" in said
    assert f"repeat it with its other options: kgqa {verb} {finished} {' '.join(words)}" in said
    kgqa(verb, finished, *words)
    kgqa("run", finished)
    assert stages.merge(finished).total.sampled == {"judge": 12, "extend": 27}[verb]


def test_status_counts_the_new_anchors_of_an_extension_as_waiting(finished: Path) -> None:
    before = json.loads(kgqa("status", finished, "--json").stdout)
    kgqa("extend", finished, "--per-shape", 5)
    now = json.loads(kgqa("status", finished, "--json").stdout)
    assert before["complete"]
    assert not now["complete"]
    assert now["items"]["ended"] == before["items"]["total"] < now["items"]["total"]
    assert now["verdicts"]["waiting"] == now["items"]["total"] - before["items"]["total"]
    assert [stage["name"] for stage in now["stages"] if stage["done"]] == ["import", "sample"]


def test_a_merge_after_an_extension_names_the_command_that_comes_first(finished: Path) -> None:
    kgqa("extend", finished, "--per-shape", "6")
    refused = kgqa("merge", finished, "--partial", code=2).stderr
    assert "the sample was extended" in refused
    assert f"first: kgqa run {finished}" in refused
    kgqa("run", finished)
    kgqa("merge", finished)


def test_what_would_change_an_answer_is_no_growth(finished: Path) -> None:
    run, config = open_run(finished)
    data = {**config.plain(), "seed": 7}
    sections = {**run.manifest().sections}
    sections["sampling"] = {"sha256": "x", "values": {**sections["sampling"]["values"], "seed": 7}}
    with pytest.raises(FingerprintMismatch, match=r"sampling\.seed: 42 → 7"):
        run.grow(data, sections)


def test_extend_judge_init_and_merge_settings_at_once_leave_a_run_that_works(finished: Path) -> None:
    settings = {"name": "strict", "steps": [{"use": "judge", "prompt": "filter", "as": "strict"}]}
    changes: list[Callable[[], object]] = [
        lambda: extend(finished, 9),
        lambda: add_pass(finished, settings),
        lambda: stages.init(finished.parent / "run.yaml", finished),
        lambda: change_dataset(finished, {"duplicates.near": 0.5}),
    ]

    def problem_of(position: int) -> BaseException | None:
        try:
            changes[position]()
        except BaseException as problem:  # noqa: BLE001
            return problem
        return None

    assert at_once(len(changes), problem_of) == []
    _, config = open_for_work(finished)
    assert [each.name for each in config.passes] == ["main", "strict"]
    assert config.plain()["anchors"]["per_shape"] == 9
    run_command(finished)
    counts = stages.merge(finished)
    assert all(verdicts == ["judge", "strict"] for _, verdicts in outcomes(finished).values())
    assert counts.total.sampled == len(outcomes(finished)) > 12


def test_status_list_and_publish_say_that_a_dataset_is_older_than_the_run(finished: Path) -> None:
    def says() -> bool:
        now = standing(finished)
        told = "dataset   is older than the run: kgqa merge" in render(now)
        merged = {stage["name"]: stage["done"] for stage in now["stages"]}["merge"]
        assert told == now.get("dataset_is_older", False) == (not merged)
        (listed,) = runs_below(finished)
        assert listed["state"] == ("complete" if told else "merged")
        published = kgqa("publish", finished, finished.parent / "published").stderr
        assert ("note: the dataset is older than the run: kgqa merge" in published) == told
        return told

    assert not says()
    extend(finished, 6)
    run_command(finished)
    assert says()
    stages.merge(finished)
    assert not says()
    add_pass(finished, {"name": "b", "steps": [{"use": "judge", "as": "b"}]})
    run_command(finished)
    assert says()
    stages.merge(finished)
    assert not says()


def test_who_waits_for_the_configuration_says_for_whom(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder.open(finished)
    pauses: list[float] = []

    def stopped(seconds: float) -> bool:
        pauses.append(seconds)
        return sum(pauses) > 10

    with alone(run), pytest.raises(StoppedEarly), alone(run, stopped=stopped):
        raise AssertionError("two processes hold the lease")
    assert "is changing the configuration of" in capsys.readouterr().err
    with alone(run, stopped=stopped):
        pass


def test_a_run_whose_configuration_was_leased_is_still_untouched(finished: Path, tmp_path: Path) -> None:
    run = stages.init(tmp_path / "run.yaml", tmp_path / "fresh")
    with alone(run):
        assert run.untouched()
    assert run.untouched()
    assert not RunFolder.open(finished).untouched()


def test_an_extension_holds_a_slice_of_the_anchors_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "graph: {source: csv, edges: edges.csv, min_degree: 0}\n"
        "anchors: {per_shape: 100, shapes: [1, 3, 4]}\n"
        "engine: {kind: scripted}\n"
    )
    run = stages.init(write_project(tmp_path, text, nodes=2000, edges=8000), tmp_path / "run")
    stages.import_graph(run.path)
    stages.sample(run.path)
    draw, peaks = sampling._draw, []

    def then_look(*given: Any) -> Any:
        drawn = draw(*given)
        tracemalloc.reset_peak()  # drawing holds arrays of the graph
        return drawn

    monkeypatch.setattr(sampling, "_draw", then_look)
    extend(run.path, 250)  # what is loaded and compiled once
    for size in (500, 1500):
        tracemalloc.start()
        extend(run.path, size)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 3,000 more, each of 1.2 KB as it was drawn, and of 2 KB as a row.
    assert peaks[1] - peaks[0] < 3_000 * 1500

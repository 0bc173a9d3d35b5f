"""An item is asked again exactly as it was recorded, differences are shown, and the run is not touched."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc.dataset.explain import explain
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.trials.replay import render, replay
from tests.command import kgqa
from tests.dataset.conftest import contents, records_of
from tests.project import write_tables
from tests.record_runs import made_run

pytestmark = pytest.mark.plugin("gasl")
KINDS = ("gene", "disease", "phenotype")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run in two passes, whose first step asks in turns and whose engine fails now and then."""
    folder = tmp_path_factory.mktemp("replay")
    nodes = [(f"n{i}", f"Node number {i}", KINDS[i % 3]) for i in range(60)]
    write_tables(
        folder, nodes, [(f"n{i}", f"n{(i + k) % 60}", "linked_to") for i in range(60) for k in (1, 7)]
    )
    config = {
        "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv", "min_degree": 0},
        "anchors": {"kind": "hub", "number": 30},
        "engine": {"kind": "scripted", "accept": 0.4, "faults": {"garbage": 0.2}},
        "passes": [
            {"name": "main", "steps": [{"use": "plan", "prompt": "demo_plan"}]},
            {"name": "second", "steps": [{"use": "judge", "prompt": "filter"}]},
        ],
        "dataset": {"z_score": None},
    }
    return RunFolder(made_run(folder, config))


def judged(run: RunFolder) -> str:
    """An item that took several turns, was asked again, and was judged."""
    records = records_of(run.dataset, "accepted", "rejected")
    found = [r for r in records if r["verdicts"]["judge"] and r["rounds"] >= 2]
    return max(found, key=lambda record: record["provenance"]["attempts"]["plan"])["id"]  # type: ignore[no-any-return]


def test_the_same_engine_gives_the_same_answers_and_no_file_changes(run: RunFolder) -> None:
    before, wanted = contents(run.path), judged(run)
    told = replay(run.path, wanted)
    assert told["same"]
    assert [one["step"] for one in told["requests"]][-1] == "judge"
    assert max(one["turn"] for one in told["requests"]) >= 2
    assert len(told["requests"]) == len(explain(run.path, wanted)["requests"])
    assert "another answer" not in render(told)
    assert contents(run.path) == before


def test_each_turn_is_shown_as_it_was_sent(run: RunFolder) -> None:
    requests = [one for one in explain(run.path, judged(run))["requests"] if one["step"] == "plan"]
    shown = {one.get("turn", 0): one["messages"][1]["content"].count("ended with") for one in requests}
    assert shown == {turn: turn for turn in range(len(shown))}


def test_another_engine_is_named_and_its_answers_are_set_against_the_recorded(run: RunFolder) -> None:
    text = run.config_file.read_text()
    changed: dict[str, Any] = yaml.safe_load(text)
    changed["engine"] |= {"accept": 1.0, "faults": {}}
    try:
        run.config_file.write_text(yaml.safe_dump(changed))
        told = kgqa("replay", run.path, judged(run)).stdout
    finally:
        run.config_file.write_text(text)
    assert "another answer" in told
    assert '+ "sufficient": true' in told


def test_what_cannot_be_asked_again_is_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such item"):
        replay(run.path, "nobody")
    prompt = run.prompts / "filter.md"
    text = prompt.read_text()
    try:
        prompt.write_text(text.replace("{% block user %}", "{% block user %}Be kind. "))
        with pytest.raises(InputError, match="prompt filter of step judge is not the one that was sent"):
            replay(run.path, judged(run))
    finally:
        prompt.write_text(text)

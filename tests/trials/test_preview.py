"""`kgqa preview`: a few items through all steps, before there is a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import kgqa
from tests.project import CONFIG, write_graph


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_graph(tmp_path)
    text = CONFIG.replace("kind: graphlet, per_shape: 6", "kind: path, number: 20")
    (tmp_path / "run.yaml").write_text(text.replace("kind: scripted", "kind: scripted, accept: 1.0"))
    return tmp_path


def test_it_shows_what_is_asked_and_answered_with_tokens_and_seconds_and_makes_no_run(project: Path) -> None:
    before = sorted(project.iterdir())
    document = json.loads(kgqa("preview", project / "run.yaml", "-n", 2, "--json").stdout)
    assert sorted(project.iterdir()) == before
    assert len(document["items"]) == 2
    for item in document["items"]:
        assert item["status"] == "accepted"
        assert item["output"]["question"]
        assert [request["id"].split("/")[0] for request in item["requests"]] == ["generate", "judge"]
        assert "entity" in item["requests"][0]["messages"][-1]["content"]
        assert item["tokens"]["prompt"] > item["tokens"]["completion"] > 0
    each, forecast = document["per_item"], document["forecast"]
    assert forecast["items"] == 100_000
    assert forecast["completion_tokens"] == pytest.approx(100_000 * each["completion"], rel=0.01)


def test_a_person_gets_the_messages_the_answers_and_what_100000_would_take(project: Path) -> None:
    told = kgqa("preview", project / "run.yaml", "-n", 1).stdout
    assert "\n    > " in told
    assert "\n    < {" in told
    assert "100,000 would take" in told


def test_a_configuration_that_cannot_be_served_is_told_like_everywhere(project: Path) -> None:
    (project / "nodes.csv").unlink()
    told = kgqa("preview", project / "run.yaml", code=2).stderr
    assert "nodes.csv" in told

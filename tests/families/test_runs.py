"""Whole runs of each family: what is accepted is right, kills leave no trace, exports hold what the records hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset.publish import export
from kgqa_hpc.store.run_folder import RunFolder
from tests.families.conftest import as_tables, finished, lines, random_graph, sampled, whole_and_killed
from tests.work.rig import Processes

ROOT = Path(__file__).parents[2]
SCRIPT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one AS near\nCOUNT near AS answer"
TEMPLATES = [
    {"name": entity, "entity": entity, "asks": "the number of neighbours", "script": SCRIPT}
    for entity in ("gene", "drug", "disease")
]
EFFECTS = {"hits": "raises", "causes": "lowers"}
QUALITY = {"use": "score", "as": "quality_score", "prompt": "quality", "minimum": 7}


def worded(prompt: str, use: str = "word") -> list[Any]:
    return [{"use": use, "prompt": prompt}, "verify"]


FAMILIES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "path": ({"length": 2, "max_answers": 5}, worded("path")),
    "fact": ({"max_answers": 3}, worded("fact")),
    "hub": ({"min_degree": 4}, worded("hub", "generate")),
    "context": ({}, ["options", "verify", QUALITY]),
    "puzzle": ({"length": 2, "effects": EFFECTS}, worded("puzzle")),
    "script": ({"scripts": TEMPLATES}, worded("script")),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A random graph as two files."""
    tables = as_tables(random_graph(11, 1200, 3600), tmp_path_factory.mktemp("graph"))
    return {**tables, "min_degree": 0}


def prepared(folder: Path, family: str, graph: dict[str, Any], number: int, **engine: Any) -> RunFolder:
    if family == "puzzle":
        pytest.importorskip("clingo", reason="CLINGO IS NOT INSTALLED (extra: puzzles)")
    settings, steps = FAMILIES[family]
    config = {"graph": graph, "anchors": {"kind": family, "number": number, **settings}}
    config |= {"engine": {"kind": "scripted", **engine}, "passes": [{"name": "main", "steps": steps}]}
    runtime = {"shard_size": 20, "commit_every": 1, "lease": 2}
    return sampled(folder, {**config, "dataset": {"z_score": None}, "runtime": runtime})


# Between them they have all steps but `generate`, which the kills of a worker are tried on.
@pytest.mark.slow
@pytest.mark.parametrize("family", ["path", "context"])
def test_a_killed_run_ends_in_the_same_bytes(
    family: str, tmp_path: Path, graph: dict[str, Any], processes: Processes
) -> None:
    def prepare(name: str, **engine: Any) -> RunFolder:
        return prepared(tmp_path / name, family, graph, 100, **engine)

    whole, killed = whole_and_killed(prepare, processes)
    assert killed == whole
    assert {record["kind"] for record in lines(killed["accepted.jsonl"])} == {family}


@pytest.mark.parametrize(
    "family",
    [pytest.param(family, marks=() if family == "path" else pytest.mark.slow) for family in FAMILIES],
)
def test_200_items_worded_by_the_scripted_engine_are_right_or_refused_with_the_reason(
    family: str, tmp_path: Path, graph: dict[str, Any]
) -> None:
    run = prepared(tmp_path, family, graph, 200)
    found = finished(run)
    accepted, rejected = lines(found["accepted.jsonl"]), lines(found["rejected.jsonl"])
    assert len(accepted) + len(rejected) == 200
    assert accepted
    assert rejected
    assert all(record["reason"].startswith(("verify: ", "quality_score: ")) for record in rejected)
    assert all(record["difficulty"] in ("easy", "medium", "hard") for record in accepted)
    for name, members in EXPORTS.items():
        export(run, name, tmp_path / name)
        written = json.loads((tmp_path / name / "train.json").read_text())
        expected = {"choices": family == "context", "chain-of-thought": family == "path"}.get(name, True)
        assert len(written) == (len(accepted) if expected else 0)
        assert all(set(entry) == members for entry in written)


EXPORTS = {
    "standard": {"id", "question", "answer", "type", "metadata"},
    "choices": {"id", "question", "choices", "answer", "reasoning_type", "quality_score"},
    "chain-of-thought": {"id", "question", "answer", "steps"},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shipped_configuration_of_a_family_is_whole(family: str) -> None:
    from kgqa_hpc.config import load_config
    from kgqa_hpc.runs.chain import run_prompts

    config = load_config(ROOT / "configs" / f"{family}.yaml")
    assert config.anchors.kind == family
    templates = any(getattr(step, "template", None) for step in config.steps)
    assert config.engine.kind == "cpu" or templates
    assert run_prompts(config) or templates

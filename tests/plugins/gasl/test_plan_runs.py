"""Whole runs of the plan loop: what is accepted follows from its script, and kills in mid-plan leave no trace."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import load_config
from kgqa_hpc.plugins.gasl.plan import ROUNDS, run_on
from kgqa_hpc.plugins.gasl.script import answers_of
from kgqa_hpc.runs.chain import run_prompts
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile
from tests.families.sampled_runs import finished, lines, sampled, whole_and_killed
from tests.work.rig import Processes

CONFIG = Path(__file__).parents[3] / "configs" / "plan.yaml"
KINDS = ("gene", "disease", "phenotype")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """300 nodes of three types, each linked to six others, as two files."""
    folder = tmp_path_factory.mktemp("graph")
    nodes = [f"n{i},Node number {i},{KINDS[i % 3]}" for i in range(300)]
    edges = [f"n{i},n{(i + k) % 300},linked_to" for i in range(300) for k in (1, 7, 20)]
    (folder / "nodes.csv").write_text("\n".join(["id,name,type", *nodes, ""]))
    (folder / "edges.csv").write_text("\n".join(["source_id,target_id,type", *edges, ""]))
    files = {name: str(folder / f"{name}.csv") for name in ("nodes", "edges")}
    return {"source": "csv", **files, "min_degree": 0}


def prepared(folder: Path, graph: dict[str, Any], number: int, **engine: Any) -> RunFolder:
    """The shipped configuration with another graph, the scripted engine and more items."""
    config = yaml.safe_load(CONFIG.read_text())
    config |= {"graph": graph, "engine": {"kind": "scripted", "accept": 0.3, **engine}}
    config["anchors"]["number"] = number
    config["runtime"] = {"shard_size": 20, "commit_every": 1, "lease": 2}
    return sampled(folder, config)


@pytest.mark.slow
def test_a_run_killed_in_mid_plan_ends_in_the_same_bytes(
    tmp_path: Path, graph: dict[str, Any], processes: Processes
) -> None:
    whole, killed = whole_and_killed(
        lambda name, **engine: prepared(tmp_path / name, graph, 100, **engine), processes
    )
    assert killed == whole
    rounds = {record["rounds"] for record in lines(killed["accepted.jsonl"])}
    assert max(rounds) >= 3
    assert rounds <= set(range(1, ROUNDS))


def test_every_answer_is_what_its_script_gives_on_its_evidence(
    tmp_path: Path, graph: dict[str, Any], processes: Processes
) -> None:
    run = prepared(tmp_path, graph, 300)
    found = finished(run, processes)
    with AnchorsFile(run.anchors) as file:
        anchors = {row["id"]: Anchor.from_dict(row) for row in file.rows()}
    accepted = lines(found["accepted.jsonl"])
    assert accepted
    for record in accepted:
        result = run_on(anchors[record["id"]], record["script"])
        assert record["answer"] == "; ".join(answers_of(result.variables["answer"]))
    refused = lines(found["rejected.jsonl"]) + lines(found["lost.jsonl"])
    assert refused
    assert all(record["reason"].startswith(("plan: ", "check: ")) for record in refused)


def test_the_shipped_configuration_is_whole() -> None:
    config = load_config(CONFIG)
    assert config.engine.kind == "cpu"
    assert run_prompts(config)

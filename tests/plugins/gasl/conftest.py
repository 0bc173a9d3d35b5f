"""The toy graph of docs/guide/gasl.md: small enough to compute every result by hand."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.cli import Answers
from kgqa_hpc.plugins.gasl.execute import Result, execute
from kgqa_hpc.plugins.gasl.graph import PropertyGraph, read_tables
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.world import OWN_SCRIPT, Bounds, Model

PAGE = (Path(__file__).parents[3] / "docs" / "guide" / "gasl.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    """The first code block of the guide in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


NODES, EDGES = _block("csv nodes.csv"), _block("csv edges.csv")
ANSWERS = json.loads(_block("json answers.json"))
ANSWERS["Name of the person"]["p2"] = "Ben Okoye"
ANSWERS["Both names by alphabet, with & between"] = {"2": "A. Ruiz & Ben Okoye", "*": "Ana Ruiz & Ben Okoye"}

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def toy_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nodes.csv, edges.csv and answers.json."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "nodes.csv").write_text(NODES, encoding="utf-8")
    (folder / "edges.csv").write_text(EDGES, encoding="utf-8")
    (folder / "answers.json").write_text(json.dumps(ANSWERS), encoding="utf-8")
    return folder


def read(folder: Path, nodes: str, edges: str = "source_id,target_id,type\n") -> PropertyGraph:
    """The graph of two tables with these texts."""
    (folder / "nodes.csv").write_text(nodes, encoding="utf-8")
    (folder / "edges.csv").write_text(edges, encoding="utf-8")
    return read_tables(folder / "nodes.csv", folder / "edges.csv")


@pytest.fixture(scope="session")
def toy(toy_files: Path) -> PropertyGraph:
    return read_tables(toy_files / "nodes.csv", toy_files / "edges.csv")


@pytest.fixture(scope="session")
def run(toy: PropertyGraph) -> Run:
    """Run a script on the toy graph, or another, with the answers of the guide's examples, or others."""

    def run(
        script: str, graph: PropertyGraph = toy, ask: Model | None = None, bounds: Bounds = OWN_SCRIPT
    ) -> Result:
        try:
            commands = parse(script.encode("utf-8"))
        except ScriptError as problem:
            return Result("error", error=problem.report())
        return execute(commands, graph, ask=ask or Answers(ANSWERS), bounds=bounds)

    return run


@pytest.fixture(scope="session")
def graph_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Sequence[str], Sequence[str]], PropertyGraph]:
    """A graph from lines of nodes.csv and edges.csv."""

    def graph_of(nodes: Sequence[str], edges: Sequence[str]) -> PropertyGraph:
        texts = ("\n".join([*lines, ""]) for lines in (nodes, edges))
        return read(tmp_path_factory.mktemp("graph"), *texts)

    return graph_of


def short(value: Any) -> Any:
    """A result shortened: nodes to their ids, edges and paths to a>b."""
    if isinstance(value, list):
        return [short(member) for member in value]
    if not isinstance(value, dict):
        return value
    if "nodes" in value and "relations" in value:
        return ">".join(value["nodes"])
    if {"source", "target"} <= set(value):
        return f"{value['source']}>{value['target']}"
    return value["id"] if "id" in value else {key: short(member) for key, member in value.items()}

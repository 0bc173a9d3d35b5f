"""The toy graph of docs/guide/gasl.md: small enough to compute every result by hand."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.cli import Answers
from kgqa_hpc.plugins.gasl.execute import Result, State, execute
from kgqa_hpc.plugins.gasl.graph import PropertyGraph, read_tables
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.world import OWN_SCRIPT, Bounds, Model

NODES = """\
id,name,type,year,description
p1,Ana Ruiz,PERSON,1975,"Ana Ruiz, pharmacologist"
p2,Ben Okoye,PERSON,1982,Dr Ben Okoye
p3,A. Ruiz,PERSON,1975,A. Ruiz (Lisbon)
e1,Lisbon 2019,EVENT,2019,talk by Ana Ruiz
e2,Oslo 2021,EVENT,2021,chair: Ben Okoye
d1,aspirin,drug,1899,
d2,warfarin,drug,1954,
g1,PTGS1,gene,,
g2,VKORC1,gene,,
g3,CYP2C9,gene,,
s1,stroke,disease,,
s2,thrombosis,disease,,
"""
EDGES = """\
source_id,target_id,type,weight
p1,p2,COLLABORATION,2
p2,p3,COLLABORATION,1
p2,p1,COLLABORATION,1
p1,d1,studies,0.5
p3,d2,studies,0.8
d1,g1,targets,0.9
d2,g2,targets,0.7
d2,g3,targets,0.4
s1,g1,associates,0.6
s2,g2,associates,0.3
s2,g1,associates,0.2
d1,s1,treats,0.6
d2,s2,treats,
"""
ANSWERS = {
    "Name of the person, first name first": {
        "p1": "Ana Ruiz",
        "p2": "Ben Okoye",
        "p3": "Ana Ruiz",
        "e1": "Ana Ruiz",
        "e2": "Ben Okoye",
    },
    "person vs meeting": {"p1": "person", "p3": "person", "*": "meeting"},
    "Both names by alphabet, with & between": {"2": "A. Ruiz & Ben Okoye", "*": "Ana Ruiz & Ben Okoye"},
    "report": {"*": "12 nodes of 5 types"},
}

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def toy_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nodes.csv, edges.csv and answers.json."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "nodes.csv").write_text(NODES, encoding="utf-8")
    (folder / "edges.csv").write_text(EDGES, encoding="utf-8")
    (folder / "answers.json").write_text(json.dumps(ANSWERS), encoding="utf-8")
    return folder


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
        state = State(commands.digest, graph.digest)
        return execute(commands, graph, state, ask or Answers(ANSWERS), bounds=bounds)

    return run


@pytest.fixture(scope="session")
def graph_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Sequence[str], Sequence[str]], PropertyGraph]:
    """A graph from lines of nodes.csv and edges.csv."""

    def graph_of(nodes: Sequence[str], edges: Sequence[str]) -> PropertyGraph:
        folder = tmp_path_factory.mktemp("graph")
        (folder / "nodes.csv").write_text("\n".join(nodes) + "\n", encoding="utf-8")
        (folder / "edges.csv").write_text("\n".join(edges) + "\n", encoding="utf-8")
        return read_tables(folder / "nodes.csv", folder / "edges.csv")

    return graph_of


@pytest.fixture(scope="session")
def short() -> Callable[[Any], Any]:
    """A function that shortens a result: nodes to their ids, edges and paths to a>b."""

    def short(value: Any) -> Any:
        if isinstance(value, list):
            return [short(member) for member in value]
        if not isinstance(value, dict):
            return value
        if "nodes" in value and "relations" in value:
            return ">".join(value["nodes"])
        if {"source", "target"} <= set(value):
            return f"{value['source']}>{value['target']}"
        return value["id"] if "id" in value else {key: short(member) for key, member in value.items()}

    return short

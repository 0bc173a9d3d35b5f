"""Small whole runs with the scripted engine, one a case: what the golden files are recorded from.

A case is a function that gets an empty folder and returns the folder of the finished run, and beside it the
commands whose answers are recorded. Everything is seeded; nothing depends on the folder or the machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.golden.command import kgqa

Case = Callable[[Path], Path]
FAULTS = {"garbage": 0.04, "truncate": 0.03, "error": 0.02}
KINDS = ("drug", "gene", "disease")
RELATIONS = ("hits", "causes")


def write_graph(folder: Path, nodes: int = 260, edges: int = 760, seed: int = 11) -> dict[str, Any]:
    """A random typed graph as two files; its section `graph:`."""
    chance = random.Random(seed)
    rows = [f"N{n},{chance.choice(['alpha', 'beta'])} node {n},{chance.choice(KINDS)}" for n in range(nodes)]
    lines = {
        f"N{chance.randrange(nodes)},N{chance.randrange(nodes)},{chance.choice(RELATIONS)}"
        for _ in range(edges)
    }
    (folder / "nodes.csv").write_text("\n".join(["id,name,type", *rows, ""]))
    (folder / "edges.csv").write_text("\n".join(["source_id,target_id,type", *sorted(lines), ""]))
    return {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv", "min_degree": 2}


def config(folder: Path, name: str = "run", **sections: Any) -> Path:
    path = folder / f"{name}.yaml"
    common = {"seed": 7, "engine": {"kind": "scripted", "accept": 0.6, "faults": FAULTS}}
    runtime = {"shard_size": 40, "commit_every": 5}
    path.write_text(yaml.safe_dump({**common, "runtime": runtime, **sections}))
    return path


def finished(folder: Path, name: str = "run", **sections: Any) -> Path:
    """The run of a configuration through all stages."""
    run = folder / "runs" / name
    assert kgqa("all", config(folder, name, **sections), run).exit_code == 0
    return run


def graphlet(folder: Path) -> Path:
    dataset = {
        "duplicates": {"exact": True, "near": 0.8},
        "split": {"by": "group", "shares": {"train": 0.7, "test": 0.3}},
        "z_score": 2.0,
    }
    steps = [{"use": "generate", "prompt": "p5"}, "check", {"use": "judge", "prompt": "filter"}]
    return finished(
        folder,
        graph=write_graph(folder),
        anchors={"per_shape": 10},
        passes=[{"name": "main", "steps": steps}],
        dataset=dataset,
    )


def _family(kind: str, steps: list[Any], number: int = 150, **settings: Any) -> Case:
    def case(folder: Path) -> Path:
        return finished(
            folder,
            graph={**write_graph(folder), "min_degree": 0},
            anchors={"kind": kind, "number": number, **settings},
            passes=[{"name": "main", "steps": steps}],
            dataset={"z_score": None},
        )

    return case


SCRIPT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one AS near\nCOUNT near AS answer"
path = _family("path", [{"use": "word", "prompt": "path"}, "verify"], length=2, max_answers=5)
fact = _family("fact", [{"use": "word", "prompt": "fact"}, "verify"], max_answers=3)
hub = _family("hub", [{"use": "generate", "prompt": "hub"}, "verify"], number=100, min_degree=4)
context = _family(
    "context",
    ["options", "verify", {"use": "score", "as": "quality_score", "prompt": "quality", "minimum": 7}],
)
puzzle = _family(
    "puzzle",
    [{"use": "word", "prompt": "puzzle"}, "verify"],
    length=2,
    effects={"hits": "raises", "causes": "lowers"},
)
script = _family(
    "script",
    [{"use": "word", "prompt": "script"}, "verify"],
    scripts=[
        {"name": kind, "entity": kind, "asks": "the number of neighbours", "script": SCRIPT} for kind in KINDS
    ],
)


def abstract(folder: Path) -> Path:
    """Several records an item, with a protein table."""
    chance = random.Random(5)
    genes = [f"GEN{n}" for n in range(40)]
    with (folder / "docs.jsonl").open("w") as file:
        for n in range(120):
            pair = chance.sample(genes, 2)
            text = (
                f"{pair[0]} binds {pair[1]} in mice. Without {pair[0]} the cells of Mus musculus die early."
            )
            file.write(json.dumps({"id": f"d{n}", "title": f"On {pair[0]}", "text": text}) + "\n")
    rows = [f"Protein {gene}\t{gene}" for gene in genes]
    (folder / "names.tsv").write_text("\n".join(["protein_name\tgene_names", *rows, ""]))
    (folder / "sprot.fasta").write_text(
        "".join(
            f">sp|Q{10000 + n}|{gene}_MOUSE Protein {gene} OS=Mus musculus OX=10090 GN={gene} PE=1 SV=1\nMAFMV{gene}\n"
            for n, gene in enumerate(genes)
        )
    )
    steps = [
        "extract",
        "organism",
        {"use": "map_protein", "proteins": str(folder / "sprot.fasta")},
        "prune",
        "question_type",
        "delexicalise",
    ]
    return finished(
        folder,
        anchors={"kind": "abstract", "documents": ["docs.jsonl"], "names": "names.tsv"},
        passes=[{"name": "main", "steps": steps}],
        dataset={"z_score": None},
    )


def records(folder: Path) -> Path:
    """A chain: the accepted pairs of a first run, stratified, judged and scored again."""
    first = finished(folder, "first", graph=write_graph(folder), anchors={"per_shape": 8})
    return finished(
        folder,
        anchors={"kind": "records", "from": str(first), "number": 80, "stratify": "group"},
        passes=[{"name": "main", "steps": [{"use": "judge", "prompt": "filter", "as": "again"}]}],
        dataset={"order": "question"},
    )


def study(folder: Path) -> Path:
    scores = [
        {
            "use": "score",
            "as": "leak",
            "prompt": "study_answer_in_question",
            "unreadable": 0,
            "inverted": True,
        },
        {"use": "score", "as": "sound", "prompt": "study_question_accurate", "unreadable": 0},
    ]
    file = config(
        folder,
        graph=write_graph(folder),
        anchors={"per_shape": 2},
        variants={"prompt": ["p1_1", "p2_1", "p5"]},
        passes=[{"name": "main", "steps": ["generate", *scores]}],
        runtime={"shard_size": 40, "attempts": 1},
    )
    run = folder / "runs" / "run"
    assert kgqa("study", file, run).exit_code == 0
    assert kgqa("report", run).exit_code == 0
    return run


def target(folder: Path) -> Path:
    return finished(folder, graph=write_graph(folder), anchors={"per_shape": 3}, target={"accepted": 100})


def panel(folder: Path) -> Path:
    """A judge added to a finished run; both decide at merge."""
    run = finished(
        folder,
        graph=write_graph(folder),
        anchors={"per_shape": 6},
        passes=[{"name": "main", "steps": ["generate", {"use": "judge", "prompt": "filter", "as": "a"}]}],
    )
    assert kgqa("judge", run, "--prompt", "demo_filter", "--name", "b").exit_code == 0
    assert kgqa("merge", run).exit_code == 0
    assert kgqa("report", run).exit_code == 0
    return run


def combined(folder: Path) -> Path:
    """Two runs of different kinds joined into one dataset."""
    graph = write_graph(folder)
    one = finished(folder, "one", graph=graph, anchors={"per_shape": 5})
    two = finished(
        folder,
        "two",
        graph=graph,
        anchors={"kind": "fact", "number": 80, "max_answers": 3},
        passes=[{"name": "main", "steps": [{"use": "word", "prompt": "fact"}, "verify"]}],
        dataset={"z_score": None},
    )
    out = folder / "runs" / "joined"
    assert kgqa("combine", out, one, two, "--mixed").exit_code == 0
    return out


CASES: dict[str, Case] = {
    each.__name__ if each.__name__ != "case" else name: each
    for name, each in {
        "graphlet": graphlet,
        "path": path,
        "fact": fact,
        "hub": hub,
        "context": context,
        "puzzle": puzzle,
        "script": script,
        "abstract": abstract,
        "records": records,
        "study": study,
        "target": target,
        "panel": panel,
        "combined": combined,
    }.items()
}

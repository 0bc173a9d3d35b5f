"""Small whole runs with the scripted engine, one a case: what the golden files are recorded from.

A case makes its run in an empty folder and names the commands whose answers are recorded. Everything is seeded;
nothing depends on the folder or the machine.
"""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.registry import shipped_plugins
from tests.command import kgqa
from tests.golden import commands as about
from tests.golden.commands import Command

Make = Callable[[Path], Path]
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
    kgqa("all", config(folder, name, **sections), run)
    return run


def graphlet(folder: Path) -> Path:
    dataset = {
        "duplicates": {"exact": True, "near": 0.8},
        "split": {"by": "group", "shares": {"train": 0.7, "test": 0.3}},
        "z_score": 2.0,
    }
    steps = [{"use": "generate", "prompt": "p5"}, "check", {"use": "judge", "prompt": "filter"}]
    faults = {"garbage": 0.2, "truncate": 0.1, "error": 0.1}
    return finished(
        folder,
        graph=write_graph(folder),
        anchors={"per_shape": 8},
        engine={"kind": "scripted", "accept": 0.6, "faults": faults},
        passes=[{"name": "main", "steps": steps}],
        dataset=dataset,
    )


def family(kind: str, steps: list[Any], number: int = 150, **settings: Any) -> Make:
    """A case whose anchors are of another kind than graphlets."""

    def make(folder: Path) -> Path:
        return finished(
            folder,
            graph={**write_graph(folder), "min_degree": 0},
            anchors={"kind": kind, "number": number, **settings},
            passes=[{"name": "main", "steps": steps}],
            dataset={"z_score": None},
        )

    return make


SCRIPT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one AS near\nCOUNT near AS answer"
path = family("path", [{"use": "word", "prompt": "path"}, "verify"], length=2, max_answers=5)
fact = family("fact", [{"use": "word", "prompt": "fact"}, "verify"], max_answers=3)
hub = family("hub", [{"use": "generate", "prompt": "hub"}, "verify"], number=100, min_degree=4)
context = family(
    "context",
    ["options", "verify", {"use": "score", "as": "quality_score", "prompt": "quality", "minimum": 7}],
)
puzzle = family(
    "puzzle",
    [{"use": "word", "prompt": "puzzle"}, "verify"],
    length=2,
    effects={"hits": "raises", "causes": "lowers"},
)
script = family(
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
        for n in range(60):
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
    kgqa("study", file, run)
    kgqa("report", run)
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
    kgqa("judge", run, "--prompt", "demo_filter", "--name", "b")
    kgqa("merge", run)
    kgqa("report", run)
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
    kgqa("combine", out, one, two, "--mixed")
    return out


def unsampled(folder: Path) -> Path:
    """A run without a graph, and a configuration whose graph has an edge to an unknown node."""
    graph = write_graph(folder, nodes=30, edges=60)
    (folder / "wrong.csv").write_text("source_id,target_id,type\nN1,N2,hits\nN1,N77,hits\n")
    config(folder, "unknown", graph={**graph, "edges": "wrong.csv"})
    run = folder / "runs" / "run"
    kgqa("init", config(folder, graph=graph, anchors={"per_shape": 2}), run)
    return run


@dataclass(frozen=True)
class Case:
    """`make` gets an empty folder and returns the finished run's; `needs` are modules of extras."""

    make: Make
    commands: Callable[[Path], Iterable[Command]] = about.about_a_run
    plugin: str = ""
    needs: tuple[str, ...] = ()


def is_taken_out(plugin: str) -> bool:
    """Whether the package lacks this plugin (of EVERY: any of them); of another name, False."""
    needed = PLUGINS if plugin == about.EVERY else {plugin} & PLUGINS
    return not needed <= shipped_plugins().keys()


PLUGINS = frozenset({"batch_api", "gasl", "evaluation", "literature", "biokg", "reasoning"})
CASES: dict[str, Case] = {
    "graphlet": Case(graphlet, about.about_graphlets, needs=("rensa",)),
    "path": Case(path, about.about_questions_with_answers),
    "fact": Case(fact, about.about_questions_with_answers),
    "hub": Case(hub),
    "context": Case(context, about.about_options, plugin="reasoning"),
    "puzzle": Case(puzzle, plugin="reasoning", needs=("clingo",)),
    "script": Case(script, about.about_scripts, plugin="gasl"),
    "abstract": Case(abstract, about.about_documents, plugin="literature"),
    "records": Case(records),
    "study": Case(study, about.about_a_study, plugin="evaluation"),
    "target": Case(target),
    "panel": Case(panel, about.about_judges, plugin="evaluation"),
    "combined": Case(combined, about.about_a_combination),
    "mistakes": Case(unsampled, about.mistakes),
}

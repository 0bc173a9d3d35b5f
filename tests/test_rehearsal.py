"""Every shipped configuration, rehearsed: the scripted engine instead of its own, few items, most of them accepted.

Prompts, steps, kinds and passes are those of the file. The engine, the number of items, the largest degree and the
files that a user brings (a finished run, an index, a benchmark, documents) are stand-ins.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import kgqa_hpc
from kgqa_hpc.prompts.files import shipped_prompts

FILES = {
    file.stem: file
    for file in (shipped_prompts().parent / "configs").rglob("*.yaml")
    if not file.stem.startswith("hydrate_")  # recipes for names, no runs
}
HPO = {"source": "hpo", "min_degree": 3, "max_degree": 30}  # graphlets are many at larger ones
OWN_GRAPH = ("csv", "graphml", "triples", "slurm")  # their graphs are the user's
REHEARSED: dict[bytes, str] = {}  # configurations by name
WORDS = ("copper", "iron", "calcium", "insulin", "collagen", "dystrophin", "actin", "keratin")
GENES = ("ATP7B", "HFE", "CASR", "INSR", "COL1A1", "DMD", "ACTB", "KRT5")
PAIRS = [
    {
        "id": f"r{number}",
        "question": f"Which gene of list {number} decides about {word} in patients?",
        "answer": f"{gene} decides how much {word} there is.",
        "prediction": f"{gene} does.",
        "document_title": f"On {word}",
        "document_text": f"{gene} is a gene of {word}.",
        "documents": [
            {"id": "d1", "title": f"On {word}", "text": "", "snippets": [{"text": f"{gene} binds {word}."}]}
        ],
    }
    for number, (word, gene) in enumerate(zip(WORDS * 2, GENES * 2, strict=True))
]
DOCUMENTS = [
    {"id": word, "title": f"On {word}", "text": f"We found that {gene} binds {word} in human cells."}
    for word, gene in zip(WORDS, GENES, strict=True)
]
MEDQA = {"question": "What is low?", "options": dict(zip("ABCDE", WORDS, strict=False)), "answer_idx": "B"}
PUBMEDQA = {"QUESTION": "Is it so?", "LONG_ANSWER": "It is.", "final_decision": "yes", "CONTEXTS": ["Seen."]}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stand-ins for the files that configurations name."""
    folder = tmp_path_factory.mktemp("rehearsal")
    files = {"pairs": PAIRS, "documents": DOCUMENTS, "medqa": [MEDQA], "pubmedqa": [{"1": PUBMEDQA}]}
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "names.tsv").write_text("\n".join(["gene_names", *GENES, ""]))
    return folder


@pytest.fixture(scope="module")
def index(inputs: Path) -> Path:
    from kgqa_hpc.plugins.literature.bm25_build import build_index

    documents = [inputs / "documents.jsonl"]
    build_index(inputs / "index", documents, shards=1, stem=False, workers=1, progress=lambda *_: None)
    return inputs / "index"


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_rehearsal_of_a_shipped_configuration_accepts_most_items(
    name: str, inputs: Path, request: pytest.FixtureRequest
) -> None:
    config = yaml.safe_load(FILES[name].read_text(encoding="utf-8"))
    if any(each.get("engine", {}).get("kind") == "index" for each in config["passes"]):
        request.getfixturevalue("index")
    file = inputs / f"{name}.yaml"
    file.write_text(yaml.safe_dump(_rehearsal(name, config, inputs)), encoding="utf-8")
    if REHEARSED.setdefault(file.read_bytes(), name) != name:
        return  # the same but for engine and runtime
    run = kgqa_hpc.Run.from_config(file, inputs / "runs" / name)
    folder = run.create()
    imported = [inputs / place.name for place in (folder.kg, folder.graph_files)]
    if config["graph"] == HPO and imported[0].exists():  # imported once
        for graph_file in imported:
            shutil.copy(graph_file, folder.path)
    run.work(threads=1)
    if config["graph"] == HPO:
        for graph_file in imported:
            shutil.copy(folder.path / graph_file.name, inputs)
    run.merge()
    accounting = run.dataset.accounting
    for count, of in ((accounting, "sampled"), (accounting.get("records") or {}, "records")):
        assert not count or 2 * count["accepted"] > count[of] > 0, accounting


def _rehearsal(name: str, config: dict[str, Any], inputs: Path) -> dict[str, Any]:
    """The configuration with the scripted engine, few items and stand-ins for the user's files."""
    config["graph"] = _graph(name, config.get("graph"))
    config["anchors"] = _anchors(config["anchors"], inputs)
    config["engine"] = {"kind": "scripted"}
    config["plugins"] = [str(FILES[name].parent / file) for file in config.get("plugins", ())]
    config["runtime"] = {"shard_size": 64}
    for each in config["passes"]:
        if "engine" in each:
            indexed = each["engine"]["kind"] == "index"
            judge = {"kind": "scripted", "model": each["name"]}
            each["engine"] = {"kind": "index", "path": str(inputs / "index")} if indexed else judge
        for step in each["steps"]:
            if "benchmark" in step:
                step["benchmark"] = str(inputs / Path(step["benchmark"]).parent.name) + ".jsonl"
            if "from" in step:
                step["from"] = str(inputs / "pairs.jsonl")
    if "decontaminate" in config.get("dataset", {}):
        config["dataset"]["decontaminate"] = []
    return config


def _graph(name: str, graph: dict[str, Any] | None) -> dict[str, Any] | None:
    if name in OWN_GRAPH or graph is None:
        return graph and HPO
    if graph["source"] == "hpo":
        return {**graph, **HPO}
    return graph | {key: str(FILES[name].parent / graph[key]) for key in ("nodes", "edges") if key in graph}


def _anchors(anchors: dict[str, Any], inputs: Path) -> dict[str, Any]:
    size = {"per_shape": 1} if "per_shape" in anchors else {"number": 16}
    stand_ins = {"from": "pairs.jsonl", "names": "names.tsv", "documents": "documents.jsonl"}
    files: dict[str, Any] = {key: str(inputs / file) for key, file in stand_ins.items() if key in anchors}
    if "documents" in files:
        files["documents"] = [files["documents"]]
    return {**anchors, **size, **files}

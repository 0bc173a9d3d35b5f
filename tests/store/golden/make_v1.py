"""How tests/store/golden/v1 was made. Kept to be read, not to be run again: files of version 1 never change.

usage: python tests/store/golden/make_v1.py FOLDER     (a new one; for a new version, copy this file)
"""

from __future__ import annotations

import sys
from pathlib import Path

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.config import OPERATIONAL
from kgqa_hpc.kg.file import write_graph
from kgqa_hpc.kg.graph import KnowledgeGraph
from kgqa_hpc.store.anchors import write_anchors
from kgqa_hpc.store.config_digest import fingerprint
from kgqa_hpc.store.journal import open_next
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import load_shard, partition
from kgqa_hpc.store.quarantine import quarantine_copy
from kgqa_hpc.store.results import write_result
from kgqa_hpc.store.run_folder import RunFolder

NODES = [["HP:1", "Größe", "Phenotype"], ["HP:2", "Ataxia", "Phenotype"], ["G:3", "FRDA \u03b1", "Gene"]]


def anchor(number: int) -> dict[str, object]:
    return {
        "id": f"g02-{number:016x}",
        "kind": "graphlet",
        "shape": 2,
        "nodes": NODES,
        "edges": [[0, 1], [0, 2], [1, 2]],
        "relations": [[2, 0, "causes"], [2, 1, "causes"], [1, 0, "is a"]],
        "weight": 0.5 + number,
        "extra": {},
    }


def record(anchor_id: str, status: str) -> dict[str, object]:
    tokens = {"prompt": 900, "completion": 80, "cached": 700}
    return {
        "id": anchor_id,
        "status": status,
        "reason": None if status == "accepted" else "judge: not valid",
        "output": {"question": "Welches Gen? \u00e9\n", "answer": "FRDA \u03b1"},
        "verdicts": {"judge": {"valid_question": status == "accepted"}},
        "trace": [{"step": "generate", "attempt": 0, "text": "{}", "repaired": False, "tokens": tokens}],
    }


def graph() -> KnowledgeGraph:
    import numpy as np

    return KnowledgeGraph(
        node_ids=np.array([node[0] for node in NODES], dtype=object),
        names=np.array([node[1] for node in NODES], dtype=object),
        node_type=np.array([0, 0, 1], dtype=np.int32),
        node_types=("Phenotype", "Gene"),
        edge_source=np.array([2, 2, 1], dtype=np.int32),
        edge_target=np.array([0, 1, 0], dtype=np.int32),
        edge_type=np.array([0, 0, 1], dtype=np.int32),
        edge_types=("causes", "is a"),
    )


def make(folder: Path) -> None:
    config = parse_config({"engine": {"kind": "scripted"}}, "golden").model_dump(mode="json")
    sections = fingerprint(config, {"p5": "5" * 64, "filter": "f" * 64}, OPERATIONAL)
    run = RunFolder.create(folder, config, sections)
    write_graph(run.kg, graph(), {"source": "golden"})
    write_anchors(run.anchors, [anchor(number) for number in range(3)], {"seed": 42})
    manifest = partition(run, 2)
    header = {"fingerprint": run.manifest().digest, "pass": "main"}
    done, open_ = manifest.shards
    own = {**header, "shard": done.name, "shard_sha256": done.sha256}
    records = [record(row["id"], "accepted") for row in load_shard(run, manifest, done.name)]
    records[1] = record(str(records[1]["id"]), "rejected")
    write_result(run.result("main", done.name), records, own)
    own = {**header, "shard": open_.name, "shard_sha256": open_.sha256, "worker": "golden-0"}
    journal, _ = open_next(run.results("main"), open_.name, own)
    journal.append(record(str(anchor(2)["id"]), "accepted"))
    journal.close()
    leases = Leases(run.leases("main"), "golden-0", 120.0)
    assert leases.claim(open_.name)
    leases.close()
    run.pin("engine-main", {"name": "scripted", "model": "scripted-1"})
    quarantine_copy(run.quarantine, run.config_file, "an example of a reason")


if __name__ == "__main__":
    make(Path(sys.argv[1]))

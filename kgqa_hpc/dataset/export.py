"""Records under the field names of the published BioGraphletQA dataset.

What differs from the published file, because it cannot be had or was never specified, is said in
docs/dataset.md: `id` is the record's number in this export, `graphlet_index` the graphlet's row in
anchors.h5, `filtering_text` is empty where no judge ran.
"""

from __future__ import annotations

from typing import Any

from kgqa_hpc.anchors.anchor import Anchor

FILE = "biographletqa.jsonl"


def published_record(number: int, row: int, anchor: Anchor, item: dict[str, Any]) -> dict[str, Any]:
    """The `number`-th accepted pair, of the anchor in row `row` of anchors.h5, in the published form."""
    return {
        "id": number,
        "nodes": [node.id for node in anchor.nodes],
        "edges": [[relation.source, relation.target] for relation in anchor.relations],
        "graphlet_id": anchor.data["shape"],
        "edge_labels": [relation.type for relation in anchor.relations],
        "node_names": [node.name for node in anchor.nodes],
        "graphlet_text": [f" - {i}: {node.name} \n" for i, node in enumerate(anchor.nodes)],
        "num_nodes": len(anchor.nodes),
        "graphlet_index": row,
        "text": _raw_text(item, "generate"),
        "question": item["output"]["question"],
        "answer": item["output"]["answer"],
        "json_parsed": True,
        "filtering_text": _raw_text(item, "judge"),
    }


def _raw_text(item: dict[str, Any], step: str) -> str:
    """What the model wrote in the last attempt of a step; empty when the step never ran."""
    return next((entry["text"] for entry in reversed(item["trace"]) if entry["step"] == step), "")

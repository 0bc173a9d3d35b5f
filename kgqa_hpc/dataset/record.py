"""The record of the published dataset: a question, its answer, the graphlet behind them, and provenance.

Built from an anchor and what happened to it, and from nothing else: no time, host, worker, path or restart
enters, so the same results give the same bytes wherever they are merged. docs/dataset.md lists the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor

TOKENS = ("prompt", "completion", "cached")
PARAMETERS = ("temperature", "max_tokens", "seed")  # of a request, as its trace entry holds them


@dataclass(frozen=True, slots=True)
class Origin:
    """What all records of a run share: its fingerprint and its seed."""

    run: str
    seed: int


def build_record(
    anchor: Anchor, item: dict[str, Any], origin: Origin, *, rejected: str | None = None
) -> dict[str, Any]:
    """The dataset's record of an item that has a question and an answer.

    `item` is the item's record as results hold it (steps/item.py). `rejected` is the reason it was left out,
    None when it was accepted. `edges` are the edges as they stand in the graph, from source to target,
    parallel ones each for itself, and `edge_labels` their types in the same order.
    """
    return {
        "id": anchor.id,
        "question": item["output"]["question"],
        "answer": item["output"]["answer"],
        "graphlet_id": anchor.data["shape"],
        "nodes": [{"id": n.id, "name": n.name, "type": n.type} for n in anchor.nodes],
        "edges": [[r.source, r.target] for r in anchor.relations],
        "edge_labels": [r.type for r in anchor.relations],
        "num_nodes": len(anchor.nodes),
        "verdicts": item["verdicts"],
        "accepted": rejected is None,
        "reason": rejected,
        "provenance": provenance(anchor, item["trace"], origin),
    }


def provenance(anchor: Anchor, trace: list[dict[str, Any]], origin: Origin) -> dict[str, Any]:
    """Per step the prompt, engine and parameters of its last request, and the tokens of all requests."""
    last = last_requests(trace)
    return {
        "run": origin.run,
        "seed": origin.seed,
        "anchor": {"id": anchor.id, "kind": anchor.kind, "weight": anchor.weight},
        "prompt": {step: dict(entry["prompt"]) for step, entry in last.items()},
        "engine": {step: dict(entry["engine"]) for step, entry in last.items()},
        "parameters": parameters(trace),
        "tokens": {kind: sum(entry["tokens"][kind] for entry in trace) for kind in TOKENS},
        "attempts": attempts(trace),
    }


def last_requests(trace: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The last request of each step: the one whose answer counted."""
    return {entry["step"]: entry for entry in trace}


def parameters(trace: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Generation parameters of each step's last request."""
    return {
        step: {name: entry[name] for name in PARAMETERS if name in entry}
        for step, entry in last_requests(trace).items()
    }


def attempts(trace: list[dict[str, Any]]) -> dict[str, int]:
    """How many requests each step took."""
    counts: dict[str, int] = {}
    for entry in trace:
        counts[entry["step"]] = counts.get(entry["step"], 0) + 1
    return counts


def lost_record(anchor: Anchor, item: dict[str, Any]) -> dict[str, Any]:
    """The line of an item that gave no pair, or none that could be judged: counted, never dropped."""
    return {
        "id": anchor.id,
        "status": item["status"],
        "reason": item["reason"],
        "graphlet_id": anchor.data["shape"],
        "attempts": attempts(item["trace"]),
    }

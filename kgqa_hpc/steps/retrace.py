"""Reconstruction of an item's requests from its recorded answers.

Prompts are not stored with items. Chain, seed and earlier answers determine them, so replaying the recorded answers
gives each request exactly as it was sent, even if a later step changed its fields, and in every turn of a multi-turn
step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Step


def retrace(
    chain: Sequence[Step],
    item: Item,
    trace: Sequence[Mapping[str, Any]],
    run_seed: int,
    output: Mapping[str, Any],
) -> list[Request]:
    """The requests of `trace`, in its order; `item` has not been asked anything yet and receives the answers again.

    `output` is the recorded output of the item, for steps whose answers are not whole in the trace.
    `chain` holds the steps of all passes. Shorter than the trace when a step of it is not in the chain any more.
    """
    requests: list[Request] = []
    for step in chain:
        if len(requests) == len(trace):
            break
        if trace[len(requests)]["step"] != step.label:
            if not step.asks_about(item):
                step.run(item)
            continue
        while len(requests) < len(trace) and (entry := trace[len(requests)])["step"] == step.label:
            attempt, turn = entry["attempt"], entry.get("turn", 0)
            requests.append(step.request(item, attempt, run_seed, turn))
            step.take(item, _answered(requests[-1], entry), attempt, turn)
            step.restore(item, output)
        item.state = {}
    return requests


def _answered(request: Request, entry: Mapping[str, Any]) -> Response:
    tokens = entry["tokens"]
    counts = (tokens["prompt"], tokens["completion"], tokens["cached"])
    return Response(request.id, entry["text"], entry["finish"], *counts, entry["error"])

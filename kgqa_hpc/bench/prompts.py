"""Real prompts to measure with: those of a run's first step, on the run's own anchors."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps.item import Item
from kgqa_hpc.store.anchors import AnchorsFile


def requests_of(anchors: Path, config: RunConfig, number: int) -> list[Request]:
    """The first `number` requests of the run's first pass. Raises InputError where nothing would be asked."""
    chain = build_chain(config, config.passes[0].name)
    if not chain[0].asks:
        raise InputError(
            f"step {chain[0].label} asks nobody, so there is nothing to measure",
            "name a configuration whose first step asks an engine",
        )
    items = [Item(anchor, output=kind_of(config).start(anchor)) for anchor in some_anchors(anchors, number)]
    return [chain[0].request(item, 0, config.seed) for item in items]


def some_anchors(path: Path, number: int) -> list[Anchor]:
    """`number` anchors, spread over the file so that many groups are among them. Raises InputError for none."""
    with AnchorsFile(path) as file:
        stride = max(len(file) // number, 1)
        rows = islice((row for n, row in enumerate(file.rows()) if n % stride == 0), number)
        found = [Anchor.from_dict(row) for row in rows]
    if not found:
        raise InputError(f"{path} holds no anchors", "sample some first")
    return found

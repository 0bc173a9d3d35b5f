"""A study's variants: the same anchors once for each value of one step setting (BioGraphletQA, section 3.2.1).

An item of a study is an anchor and a variant: the anchor's id is `ANCHOR~VARIANT` and its data says `variant`.
Items of one variant lie together, so that a prefix cache reads each prompt once. In the chain the step that
varies is a family of steps; an item's own is the one of its variant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Outcome, Step

MARK = "~"  # between the anchor's id and the variant's name; names have none


def with_variants(anchors: Iterable[Anchor], names: Sequence[str]) -> Iterator[Anchor]:
    """Every anchor once for each variant, a variant's anchors together and in their order."""
    kept = list(anchors)
    for name in names:
        for anchor in kept:
            yield replace(anchor, id=f"{anchor.id}{MARK}{name}", data={**anchor.data, "variant": name})


class StepFamily(Step):
    """One step in several variants; looks like the first of them, and does each item by its own."""

    def __init__(self, members: Mapping[str, Step]) -> None:
        self._by_variant = dict(members)
        first = next(iter(self._by_variant.values()))
        super().__init__(first.settings, first.prompt if first.asks else None, first.context)
        for name in ("name", "answer", "adds", "gives", "needs", "turns"):
            setattr(self, name, getattr(first, name))

    @property
    def members(self) -> tuple[Step, ...]:
        return tuple(self._by_variant.values())

    def of(self, item: Item) -> Step:
        return self._by_variant[item.anchor.data["variant"]]

    def request(self, item: Item, attempt: int, run_seed: int, turn: int = 0) -> Request:
        return self.of(item).request(item, attempt, run_seed, turn)

    def take(self, item: Item, response: Response, attempt: int, turn: int = 0) -> Outcome:
        return self.of(item).take(item, response, attempt, turn)

    def run(self, item: Item) -> Outcome:
        return self.of(item).run(item)

    def variables(self, item: Item) -> dict[str, Any]:
        return self.of(item).variables(item)

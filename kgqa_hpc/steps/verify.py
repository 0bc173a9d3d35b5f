"""Hold a question against its evidence without a model."""

from __future__ import annotations

from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.judge import PAIR
from kgqa_hpc.steps.step import Done, Outcome, Reject, Step


class Verify(Step):
    """Rejects what the anchor kind objects to, with its reason."""

    name = "verify"
    adds = "annotation"
    needs = PAIR

    def compute(self, item: Item) -> Outcome:
        objection = self.context.kind.objection(item.anchor, item.output)
        return Done() if objection is None else Reject(f"{self.label}: {objection}")

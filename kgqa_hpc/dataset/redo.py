"""Steps that ask nobody at the end of the last pass, done again at merge with the settings of `dataset.steps`.

The answers of the models stand in the results, so the fields of an item before its last computing steps follow from
them: the steps before are gone through once more with the recorded answers (steps/lifecycle.py), then the last ones
run with their new settings. No request is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain as joined
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig
from kgqa_hpc.errors import KgqaError
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.runs.open import kept_prompts
from kgqa_hpc.steps.lifecycle import begin, end, retrace
from kgqa_hpc.steps.outcomes import Done, Outcome, Retry
from kgqa_hpc.steps.step import Step
from kgqa_hpc.store.run_folder import RunFolder


class Redo:
    """The steps of a run with the settings of `dataset.steps`; `item` gives an item's record as they make it."""

    def __init__(self, run: RunFolder, config: RunConfig) -> None:
        changed = config.with_last_steps()
        passes = [
            build_chain(changed, pass_config.name, prompts=kept_prompts(run))
            for pass_config in changed.passes
        ]
        self._chain: list[Step] = list(joined.from_iterable(passes))
        self._labels = tuple(config.dataset.steps or ())
        self._seed = config.seed

    def item(self, anchor: Anchor, record: Mapping[str, Any]) -> dict[str, Any]:
        """The record of the item, done again if it reached the last steps; a record as results hold it."""
        if not self._reached(record):
            return dict(record)
        trace = record["trace"]
        item = begin(self._chain[0].context.kind, anchor)
        retrace(self._chain, item, trace, self._seed, record["output"])
        asked = [step.label for step in self._chain].index(trace[-1]["step"]) + 1 if trace else 0
        outcome: Outcome = Done()
        step = self._chain[-1]
        for step in self._chain[asked:]:
            try:
                outcome = step.run(item)
            except (KgqaError, MemoryError):
                raise
            except (Exception, SystemExit) as problem:  # noqa: BLE001  counted, as a worker counts it
                outcome = Retry(type(problem).__name__, lost_as="failed")
            if not isinstance(outcome, Done):
                break
        end(item, outcome, step.context.kind, step.label)
        item.trace = trace
        return item.to_record()

    def _reached(self, record: Mapping[str, Any]) -> bool:
        """Whether an item was accepted, or was closed by one of the steps that are done again."""
        reason = record["reason"] or ""
        return record["status"] == "accepted" or any(reason.startswith(f"{label}:") for label in self._labels)

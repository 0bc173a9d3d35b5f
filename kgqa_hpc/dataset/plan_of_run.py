"""What merge must know of a run's configuration: its anchor kind, its judges, the columns of its steps."""

from __future__ import annotations

from typing import Any

from kgqa_hpc.columns import Column
from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.decide import Approves, Decision, decision
from kgqa_hpc.dataset.record import Origin, RecordMaker


def record_maker(config: RunConfig, run_digest: str) -> RecordMaker:
    """Builds the records of a run with this configuration. Raises ConfigError for an unknown kind or step."""
    source = getattr(config.graph, "source", None) or getattr(config.anchors, "source", None)
    origin = Origin(run_digest, config.seed, source)
    columns: dict[str, Column] = {}
    for _, step in _steps(config):
        columns |= {column.name: column for column in step.columns}
    return RecordMaker(origin, anchor_kind(config), tuple(columns.values()))


def run_decision(config: RunConfig) -> Decision:
    """The rule of `dataset.decide` over the run's judges."""
    judges: dict[str, Approves] = {
        label: step.approves for label, step in _steps(config) if hasattr(step, "approves")
    }
    return decision(config.dataset.decide, judges)


def anchor_kind(config: RunConfig) -> Any:
    """The run's kind of anchor (anchors/anchor.py: AnchorKind)."""
    from kgqa_hpc.dataset.shim import GraphletKind

    return GraphletKind()


def _steps(config: RunConfig) -> list[tuple[str, Any]]:
    """(label, step class) of every step, in the order of the passes."""
    from kgqa_hpc.dataset.shim import STEPS

    return [(name, STEPS[name]) for each in config.passes for name in each.steps]

"""What merge must know of a run's configuration: its anchor kind, its judges, the columns of its steps."""

from __future__ import annotations

from kgqa_hpc.columns import Column
from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.record import Origin, RecordMaker
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.chain import kind_of


def record_maker(config: RunConfig, run_digest: str) -> RecordMaker:
    """Builds the records of a run with this configuration. Raises ConfigError for an unknown kind or step."""
    source = getattr(config.graph, "source", None) or getattr(config.anchors, "source", None)
    origin = Origin(run_digest, config.seed, source)
    columns: dict[str, Column] = {}
    for settings in config.steps:
        added = STEPS.get(settings.use).columns_for(settings)
        columns |= {column.name: column for column in added}
    return RecordMaker(origin, kind_of(config), tuple(columns.values()))

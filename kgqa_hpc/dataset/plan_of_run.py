"""What merge must know of a run's configuration: its anchor kind, its judges, the columns of its steps."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.columns import Column
from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.record import Origin, RecordMaker
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.chain import kind_of


def record_maker(config: RunConfig, run_digest: str) -> RecordMaker:
    """Builds the records of a run with this configuration. Raises ConfigError for an unknown kind or step."""
    origin = Origin(run_digest, config.seed, _source(config))
    columns: dict[str, Column] = {}
    for settings in config.steps:
        added = STEPS.get(settings.use).columns_for(settings)
        columns |= {column.name: column for column in added}
    return RecordMaker(origin, kind_of(config), tuple(columns.values()))


def _source(config: RunConfig) -> str | None:
    """The graph's source, or the name of the run or file that records come from: never a path of this machine."""
    if config.graph is not None:
        return str(config.graph.source)
    source = getattr(config.anchors, "source", None)
    return None if source is None else Path(source).name

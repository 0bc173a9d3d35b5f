"""Carries columns of the source into the records of a run of kind `records`.

Without it such a run has the pair, its own columns and `source_id`, by which the others can be joined. A cleaned
dataset of proteins is of little use without accession and sequence, so configs/literature_clean.yaml keeps them.
"""

from __future__ import annotations

from pydantic import Field, field_validator

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.columns import Column
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Step


class KeepSettings(StepSettings):
    """What is carried over."""

    columns: list[str] = Field(
        min_length=1, description="Columns that some step or anchor kind adds, by name."
    )

    @field_validator("columns")
    @classmethod
    def _known(cls, columns: list[str]) -> list[str]:
        if unknown := [name for name in columns if name not in declared()]:
            raise ValueError(f"no step or anchor kind adds {', '.join(unknown)}")
        return columns


class Keep(Step):
    """Asks nobody and changes nothing: the source's fields are there, and are only declared as columns."""

    name = "keep"
    Settings = KeepSettings
    adds = "annotation"

    def compute(self, item: Item) -> Outcome:
        return Done()

    @classmethod
    def columns_for(cls, settings: KeepSettings) -> tuple[Column, ...]:
        known = declared()
        return tuple(known[name] for name in settings.columns)


def declared() -> dict[str, Column]:
    """Every column that a step or an anchor kind adds under a fixed name."""
    entries = [registry.get(name) for registry in (KINDS, STEPS) for name in registry.names()]
    return {column.name: column for entry in entries for column in entry.columns}

"""The `dataset:` section of a configuration: what merge keeps, and how it is divided.

Nothing here changes what was generated. A changed section takes effect with `kgqa init` and `kgqa merge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kgqa_hpc.settings import Package, Settings
from kgqa_hpc.steps.decision import Decide

Share = Annotated[float, Field(gt=0, lt=1)]


class Duplicates(Settings):
    """Accepted records whose question an earlier record has already."""

    exact: bool = Field(True, description="Reject the same words again, whatever case and punctuation.")
    near: Annotated[Share | None, Package("rensa", "kgqa_hpc[duplicates]")] = Field(
        None, description="Also reject questions whose character 5-grams overlap so much (Jaccard)."
    )


class EvaluationSet(Settings):
    """A file of test items that no accepted record may contain."""

    paths = ("path",)
    path: str = Field(description="JSONL, JSON or Parquet.")
    question: str | None = Field(None, description="Field of the question; default: guessed.")
    answer: str | None = Field(None, description="Field of a long answer; default: guessed.")


class Debias(Settings):
    """A smaller dataset in which rare values are as frequent as can be (QAProt, Algorithm 1)."""

    columns: list[str] = Field(min_length=1, description="Record columns whose values are evened out.")
    number: int = Field(ge=1, description="Accepted records to keep.")


class Split(Settings):
    """Accepted records divided into parts that share nothing of what `by` names."""

    by: str = Field(
        "nodes",
        description="nodes: connected groups of records that share nodes; sequence_cluster: records of similar "
        "sequences; or a record column.",
    )
    shares: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Share] = Field(
        default_factory=lambda: {"train": 0.9, "test": 0.1},
        min_length=2,
        description="Parts and their shares of the accepted records.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Split:
        if abs(sum(self.shares.values()) - 1) > 1e-9:
            raise ValueError(f"shares sum to {sum(self.shares.values()):g} instead of 1")
        return self


class Budget(Settings):
    """What may be spent on a target at most."""

    items: int | None = Field(None, ge=1, description="Anchors sent through the steps.")
    tokens: int | None = Field(None, ge=1, description="Of prompts and answers together, all attempts.")
    gpu_hours: float | None = Field(
        None, gt=0, description="Of the workers, from their logs; no two runs take the same."
    )
    money: float | None = Field(
        None,
        gt=0,
        exclude_if=lambda value: value is None,
        description="At the engines' prices, for all attempts.",
    )


class Target(Settings):
    """How many records the dataset shall have; the sample grows until it has them, or the budget is spent."""

    accepted: int = Field(ge=1, description="Accepted records after all filters, exactly.")
    per: Literal["all", "group"] = Field("all", description="In all, or of each group (shape, type …).")
    budget: Budget = Budget()


class DatasetConfig(Settings):
    """What merge keeps."""

    decide: Decide = Field(default_factory=Decide, description="How verdicts become accepted or rejected.")
    steps: dict[str, dict[str, Any]] | None = Field(
        None,
        description="Other settings, by label, of the last steps that ask no engine; merge does them again.",
    )
    z_score: float | None = Field(
        3.0, gt=0, description="Length outliers beyond so many sigma are rejected (3.2.2)."
    )
    duplicates: Duplicates | None = Field(None, description="Reject repeated questions.")
    decontaminate: list[str | EvaluationSet] = Field(
        default_factory=list, description="Test files; records that contain their items are rejected."
    )
    window: int = Field(
        13, ge=3, description="Words in a row shared with a test item that count as contaminated."
    )
    debias: Debias | None = Field(None, description="Keep a balanced part of the accepted records.")
    split: Split | None = Field(None, description="Divide the accepted records, e.g. into train and test.")
    order: str | None = Field(
        None, description="Record column in whose order the dataset stands; default: a seeded shuffle."
    )
    title: str | None = Field(None, description="Title of the dataset; default: by its evidence.")
    description: str | None = Field(None, description="What it is, for the card; default: by kind and steps.")
    language: str | list[str] | None = Field(
        None, description="Language code or codes of the texts, such as en or de; default: not stated."
    )
    authors: list[str] | None = Field(None, description="Who made the dataset.")
    licence: str | None = Field(None, description="Licence of the dataset; default: the graph source's.")
    citation: str | None = Field(None, description="How to cite the dataset; default: the graph's citation.")
    contact: str | None = Field(None, description="Whom to ask about the dataset.")

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        tests = data.get("decontaminate")
        if not isinstance(tests, list):
            return {**data}
        sets = [entry if isinstance(entry, Mapping) else {"path": entry} for entry in tests]
        return {**data, "decontaminate": [EvaluationSet.with_paths(entry, base) for entry in sets]}

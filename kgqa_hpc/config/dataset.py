"""The `dataset:` section of a configuration: which records merge accepts, and how it splits them.

No key of this section changes the generated texts. A changed section takes effect with `kgqa init` and `kgqa merge`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kgqa_hpc.settings import Package, Settings, later_key
from kgqa_hpc.steps.decision import Decide

Share = Annotated[float, Field(gt=0, lt=1)]


def _language_codes(value: str | list[str]) -> str | list[str]:
    for code in [value] if isinstance(value, str) else value:
        if not re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", code):
            raise ValueError(f"{code!r} is no language code such as en, de or pt-BR")
    return value


Languages = Annotated[str | list[str], AfterValidator(_language_codes)]


class Duplicates(Settings):
    """Settings of the duplicate filter: it rejects a record whose question repeats that of an earlier record."""

    exact: bool = Field(True, description="Reject questions equal but for case and punctuation.")
    near: Annotated[Share | None, Package("rensa", "kgqa_hpc[duplicates]")] = Field(
        None, description="Also reject questions of this Jaccard similarity (character 5-grams)."
    )


class EvaluationSet(Settings):
    """A file of test items that no accepted record may contain."""

    paths = ("path",)
    path: str = Field(description="File of test items: JSONL, JSON or Parquet.")
    question: str | None = Field(None, description="Field of the question; default: detected.")
    answer: str | None = Field(None, description="Field of a long answer; default: detected.")


class Debias(Settings):
    """Settings of a balanced subset, in which rare column values are as frequent as possible (QAProt, Algorithm 1)."""

    columns: list[str] = Field(min_length=1, description="Record columns whose values are balanced.")
    number: int = Field(ge=1, description="Accepted records to keep.")


class Split(Settings):
    """Settings of a split: parts of the accepted records that share no value of `by`."""

    by: str = Field(
        "nodes",
        description="What stays in one part: records connected by nodes, similar sequences "
        "(sequence_cluster), or equal values of a column.",
    )
    shares: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Share] = Field(
        default_factory=lambda: {"train": 0.9, "test": 0.1},
        min_length=2,
        description="Share of each part, by name; the sum is 1.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if abs(sum(self.shares.values()) - 1) > 1e-9:
            raise ValueError(f"shares sum to {sum(self.shares.values()):g} instead of 1")
        return self


class Budget(Settings):
    """Limits of the work towards a target."""

    items: int | None = Field(None, ge=1, description="Maximum anchors to process.")
    tokens: int | None = Field(
        None, ge=1, description="Maximum tokens: prompts plus answers of all attempts."
    )
    gpu_hours: float | None = Field(
        None,
        gt=0,
        description="Maximum GPU-hours by the workers' logs (differs between repeated runs).",
    )
    money: float | None = later_key("Largest cost at the engines' prices, for all attempts.", gt=0)


class Target(Settings):
    """Settings of a target size: the sample grows until enough records are accepted or the budget is spent."""

    accepted: int = Field(ge=1, description="Accepted records after all filters, exactly.")
    per: Literal["all", "group"] = Field(
        "all", description="Scope of `accepted`: the dataset, or each group."
    )
    budget: Budget = Field(Budget(), description="Limits of the sample's growth.")


class DatasetConfig(Settings):
    """Settings of `kgqa merge`: filters, split, order and metadata of the dataset."""

    decide: Decide = Field(
        default_factory=Decide, description="Rule that accepts or rejects an item by its verdicts."
    )
    steps: dict[str, dict[str, Any]] | None = Field(
        None,
        description="Changed settings of the last steps without an engine, by label; merge repeats them.",
    )
    z_score: float | None = Field(
        3.0,
        gt=0,
        description="Reject texts whose length is further from the mean, in standard deviations (3.2.2).",
    )
    duplicates: Duplicates | None = Field(None, description="Reject repeated questions.")
    decontaminate: list[str | EvaluationSet] = Field(
        default_factory=list, description="Test files; records with their items are rejected."
    )
    window: int = Field(
        13,
        ge=3,
        description="Consecutive words shared with a test item that count as contamination.",
    )
    debias: Debias | None = Field(None, description="Keep a balanced part of the accepted records.")
    split: Split | None = Field(None, description="Divide the accepted records.")
    order: str | None = Field(
        None, description="Record column to sort the dataset by; default: a seeded shuffle."
    )
    title: str | None = Field(None, description="Title; default: derived from its evidence.")
    description: str | None = Field(
        None, description="Description on the card; default: derived from kind and steps."
    )
    language: Languages | None = Field(
        None, description="Language codes of the texts (en); default: not stated."
    )
    authors: list[str] | None = Field(None, description="Authors.")
    licence: str | None = Field(None, description="Licence; default: the graph source's.")
    citation: str | None = Field(None, description="Citation; default: the graph's.")
    contact: str | None = Field(None, description="Contact.")

    @classmethod
    def with_paths(cls, data: Mapping[str, Any], base: Path) -> dict[str, Any]:
        tests = data.get("decontaminate")
        if not isinstance(tests, list):
            return {**data}
        sets = [entry if isinstance(entry, Mapping) else {"path": entry} for entry in tests]
        return {**data, "decontaminate": [EvaluationSet.with_paths(entry, base) for entry in sets]}

"""The sections of a configuration: prompts, passes with their chains of steps, runtime, dataset and target.

No key of `dataset:` changes the generated texts. A changed section takes effect with `kgqa init` and `kgqa merge`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, model_validator

from kgqa_hpc.engines import EngineConfig
from kgqa_hpc.prompts.files import DOMAIN
from kgqa_hpc.settings import Name, Package, Settings, StepSettings, later_key, section
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import Decide
from kgqa_hpc.text.plain_text import parse_duration


class PromptConfig(Settings):
    """Settings of the prompts: names of files in prompts/ or in the user's `folder`, which takes precedence."""

    generate: Name | None = Field(None, description="Default prompt of generate steps; p5 if not set.")
    judge: Name | None = Field(None, description="Default prompt of judge steps; filter if not set.")
    domain: Name = Field(DOMAIN, description="Subject area: biomedicine, general, or your own.")
    paths = ("folder",)
    folder: str | None = Field(
        None, description="Folder of your own prompts and modules, which override shipped ones."
    )
    edge_types: bool | None = Field(
        None,
        description="Show edge types in prompts; default: for sources with specific relations (hpo, obo …).",
    )


_STEP = BeforeValidator(lambda value, info: section(STEPS, "use", value, (info.context or {}).get("base")))


class PassConfig(Settings):
    """Settings of a pass: a chain of steps that one engine runs over all shards."""

    name: Name = Field(description="Name of the pass and its folder of results.")
    steps: list[Annotated[SerializeAsAny[StepSettings], _STEP]] = Field(
        min_length=1, description="Steps of an item, in order."
    )
    engine: EngineConfig | None = Field(None, description="Engine of this pass; default: the run's.")
    variant: Name | None = Field(
        None, description="Study variant whose items this pass processes; set by `variants`."
    )


# YAML 1.1 reads 12:30:00 as a sexagesimal integer, which is already a number of seconds.
Duration = Annotated[float, Field(ge=0), BeforeValidator(parse_duration, json_schema_input_type=float | str)]


class RunBudget(Settings):
    """Upper limits of a run's cost over all its workers and restarts; at a limit, workers stop with exit code 75."""

    money: float | None = later_key("Largest cost at the engines' prices, for all attempts.", gt=0)
    tokens: int | None = later_key("Maximum tokens: prompts plus answers of all attempts.", ge=1)
    items: int | None = later_key("Maximum items that a pass processes.", ge=1)
    hours: float | None = later_key("Maximum wall-clock hours in which workers run.", gt=0)

    @property
    def limits(self) -> dict[str, float]:
        """The limits of the budget that are set, by name."""
        return {name: limit for name, limit in self.model_dump().items() if limit is not None}


class RuntimeConfig(Settings):
    """Settings of scheduling, time limits and saving. None of them changes the records of the dataset."""

    shard_size: int = Field(512, ge=1, description="Anchors per shard.")
    time_limit: Duration | None = Field(
        None, description="Wall-clock limit of a process; under Slurm also the job's end, if it is earlier."
    )
    margin: Duration = Field(900.0, description="Time before the limit in which a worker takes no new work.")
    commit_every: Duration = Field(30.0, description="Maximum time between saves to disk.")
    window: int | None = Field(
        None, ge=1, description="Maximum requests in flight; default: twice the engine's batch."
    )
    lease: Duration = Field(
        120.0,
        gt=0,
        le=1e9,  # threads wait for fractions of this time, which the system limits
        description="Age of a lease's heartbeat after which another worker may take the shard.",
    )
    attempts: int = Field(3, ge=1, description="Maximum attempts of an item per step.")
    engine_stall: Duration = Field(
        600.0, gt=0, description="Time without progress or heartbeat after which an engine is restarted."
    )
    engine_restarts: int = Field(
        20, ge=0, description="Engine restarts without progress before the worker ends."
    )
    item_engine_deaths: int = Field(
        3, ge=1, description="Engine crashes with an item alone in it, after which the item counts as failed."
    )
    budget: RunBudget | None = later_key("Limits of money, tokens, items and hours of the whole run.")


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
        None, description="Also reject questions of at least this Jaccard similarity (character 5-grams)."
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
        description="Records that stay together in a part: those connected by nodes, with similar sequences "
        "(sequence_cluster), or with equal values of a column.",
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
        None, gt=0, description="Maximum GPU-hours by the workers' logs (differs between repeated runs)."
    )
    money: float | None = later_key("Largest cost at the engines' prices, for all attempts.", gt=0)


class Target(Settings):
    """Settings of a target size: the sample grows until enough records are accepted or the budget is spent."""

    accepted: int = Field(ge=1, description="Exact number of accepted records after all filters.")
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
        description="Reject pairs with a text length more than this number of standard deviations from the mean "
        "(BioGraphletQA, 3.2.2).",
    )
    duplicates: Duplicates | None = Field(None, description="Reject repeated questions.")
    decontaminate: list[str | EvaluationSet] = Field(
        default_factory=list, description="Test files; records with their items are rejected."
    )
    window: int = Field(
        13, ge=3, description="Consecutive words shared with a test item that count as contamination."
    )
    debias: Debias | None = Field(None, description="Keep a balanced part of the accepted records.")
    split: Split | None = Field(None, description="Divide the accepted records.")
    order: str | None = Field(
        None, description="Record column to sort the dataset by; default: a seeded shuffle."
    )
    title: str | None = Field(None, description="Dataset's title; default: derived from its evidence.")
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

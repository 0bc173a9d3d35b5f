"""Passes of a run, each with its chain of steps; the default prompts of the steps; time limits and budget."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, ValidationInfo

from kgqa_hpc.config.variants import PASSES
from kgqa_hpc.engines.registry import EngineConfig
from kgqa_hpc.settings import Name, Settings, StepSettings, later_key, section
from kgqa_hpc.steps import STEPS
from kgqa_hpc.text.plain_text import parse_duration


class PromptConfig(Settings):
    """Settings of the prompts: names of files in prompts/ or in the user's `folder`, which takes precedence."""

    generate: Name | None = Field(None, description="Default prompt of generate steps; p5 if not set.")
    judge: Name | None = Field(None, description="Default prompt of judge steps; filter if not set.")
    domain: Name = Field(
        "biomedicine",
        description="Subject area: biomedicine, general, or your own.",
    )
    paths = ("folder",)
    folder: str | None = Field(
        None,
        description="Folder of your own prompts and modules, which override shipped ones.",
    )
    edge_types: bool | None = Field(
        None,
        description="Show edge types in prompts; default: for sources with specific relations (hpo, obo …).",
    )


def _step(value: Any, info: ValidationInfo) -> Any:
    return section(STEPS, "use", value, (info.context or {}).get("base"))


class PassConfig(Settings):
    """Settings of a pass: a chain of steps that one engine runs over all shards."""

    name: Name = Field(description="Name of the pass and its folder of results.")
    steps: list[Annotated[SerializeAsAny[StepSettings], BeforeValidator(_step)]] = Field(
        min_length=1, description="Steps of an item, in order."
    )
    engine: EngineConfig | None = Field(None, description="Engine of this pass; default: the run's.")
    variant: Name | None = Field(
        None,
        description="Study variant whose items this pass processes; set by `variants`.",
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
        None, description="Wall-clock limit of this process; under Slurm the job's end counts."
    )
    margin: Duration = Field(900.0, description="Time before the limit in which a worker takes no new work.")
    commit_every: Duration = Field(30.0, description="Maximum time between saves to disk.")
    window: int | None = Field(
        None, ge=1, description="Requests in flight; default: twice the engine's batch."
    )
    lease: Duration = Field(
        120.0,
        gt=0,
        description="Age of a lease's heartbeat after which another worker may take the shard.",
    )
    attempts: int = Field(3, ge=1, description="Attempts per step.")
    engine_stall: Duration = Field(
        600.0, gt=0, description="Time without a sign of life after which an engine is restarted."
    )
    engine_restarts: int = Field(
        20, ge=0, description="Engine restarts without progress before the worker ends."
    )
    item_engine_deaths: int = Field(
        3, ge=1, description="Engine crashes on an item alone before it counts as failed."
    )
    budget: RunBudget | None = later_key("Limits of the whole run.")


def with_step_defaults(data: dict[str, Any]) -> Any:
    """The passes of plain data, in which each step is a mapping with a label and a prompt.

    The default prompt is that of the section `prompts:` (`prompts: {judge: …}`), or the step's own. Malformed parts
    stay unchanged; the models refuse them later.
    """
    passes, prompts = data.get("passes", PASSES), data.get("prompts")

    def step(entry: Any) -> Any:
        entry = {"use": entry} if isinstance(entry, str) else entry
        use = entry.get("use") if isinstance(entry, dict) else None
        if not isinstance(use, str) or use not in STEPS:
            return entry
        named = prompts.get(use) if isinstance(prompts, dict) and use in PromptConfig.model_fields else None
        prompt = named if isinstance(named, str) else STEPS.get(use).default_prompt
        return {"as": use, "prompt": prompt, **entry}

    if not isinstance(passes, list):
        return passes
    return [
        {**entry, "steps": [step(part) for part in entry["steps"]]}
        if isinstance(entry, dict) and isinstance(entry.get("steps"), list)
        else entry
        for entry in passes
    ]


def asks(passes: Any) -> bool:
    """Whether any valid step of plain passes asks an engine; True for passes without a list of steps."""
    for entry in passes if isinstance(passes, list) else [None]:
        steps = entry.get("steps") if isinstance(entry, dict) else None
        for plain in steps if isinstance(steps, list) else [None]:
            try:
                settings = section(STEPS, "use", plain)
            except ValidationError:
                continue
            if STEPS.get(settings.use).asks_with(settings):
                return True
    return False

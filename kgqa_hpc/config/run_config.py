"""The configuration of a run as a whole, checked completely before anything starts.

Every setting is one typed field with one sentence. Unknown keys are refused with the nearest known one, and
all errors are reported at once.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr, SerializeAsAny, ValidationError, model_validator

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config.dataset import DatasetConfig, Target
from kgqa_hpc.config.passes import PassConfig, PromptConfig, asks, read_passes
from kgqa_hpc.config.variants import applied, changes, with_alternatives, with_paths
from kgqa_hpc.engines.registry import EngineConfig
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.settings import GraphConfig, graph_config
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.plugin_files import load_plugin_file
from kgqa_hpc.settings import Key, KindSettings, Problems, Settings, StepSettings, later_key, section
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import Decision, decision
from kgqa_hpc.text.durations import parse_duration

# YAML 1.1 reads 12:30:00 as a sexagesimal integer, which is already a number of seconds.
Duration = Annotated[float, Field(ge=0), BeforeValidator(parse_duration, json_schema_input_type=float | str)]


class RunBudget(Settings):
    """Upper limits of a run's cost over all its workers and restarts; at a limit, workers stop with exit code 75."""

    money: float | None = later_key("Largest cost at the engines' prices, for all attempts.", gt=0)
    tokens: int | None = later_key("Largest number of tokens: prompts plus answers of all attempts.", ge=1)
    items: int | None = later_key("Largest number of items that a pass processes.", ge=1)
    hours: float | None = later_key("Largest number of wall-clock hours in which workers run.", gt=0)

    @property
    def limits(self) -> dict[str, float]:
        """The limits of the budget that are set, by name."""
        return {name: limit for name, limit in self.model_dump().items() if limit is not None}


class RuntimeConfig(Settings):
    """Settings of scheduling, time limits and saving. None of them changes the records of the dataset."""

    shard_size: int = Field(512, ge=1, description="Anchors per shard.")
    time_limit: Duration | None = Field(
        None, description="Wall-clock limit of this process; ignored under Slurm, where the job's end counts."
    )
    margin: Duration = Field(
        900.0, description="Time before the limit at which a worker stops taking new work."
    )
    commit_every: Duration = Field(30.0, description="Longest time between saving finished items to disk.")
    window: int | None = Field(
        None, ge=1, description="Number of requests in flight; default: twice the engine's batch."
    )
    lease: Duration = Field(
        120.0,
        gt=0,
        description="Age of a lease's last heartbeat after which another worker may take the shard over.",
    )
    attempts: int = Field(
        3, ge=1, description="Attempts per step before an item counts as invalid or failed."
    )
    engine_stall: Duration = Field(
        600.0, gt=0, description="Time without a sign of life after which an engine is killed and restarted."
    )
    engine_restarts: int = Field(
        20, ge=0, description="Engine restarts without progress before the worker gives up."
    )
    item_engine_deaths: int = Field(
        3, ge=1, description="Engine crashes on an item processed alone before the item counts as failed."
    )
    budget: RunBudget | None = later_key("What the run may spend at most.")


class RunConfig(Settings):
    """Configuration of a run: the whole YAML file."""

    paths = ("plugins",)

    plugins: list[str] = Field(
        default_factory=list,
        exclude_if=lambda value: not value,
        description="Python files with your own steps, kinds, engines … (docs/guide/extending.md).",
    )
    seed: int = Field(42, ge=0, lt=2**63, description="Random seed of all sampling.")
    graph: SerializeAsAny[GraphConfig] | None = Field(
        None, description="Knowledge graph to read; default: the bundled graph, if the anchors need a graph."
    )
    anchors: SerializeAsAny[KindSettings] = Field(
        description="Evidence that questions are based on, and how much of it; default: graphlets."
    )
    prompts: PromptConfig = Field(PromptConfig(), description="Prompts of the steps.")
    engine: EngineConfig = Field(description="Engine that answers the prompts.")
    passes: list[PassConfig] = Field(min_length=1, description="Passes over all shards; default: one, main.")
    runtime: RuntimeConfig = Field(RuntimeConfig(), description="Shards, time limits, restarts, budget.")
    dataset: DatasetConfig = Field(DatasetConfig(), description="What `kgqa merge` makes of the results.")
    target: Target | None = Field(
        None, description="Number of accepted records to reach; the sample grows until then."
    )
    variants: dict[str, list[Any] | dict[str, Any]] | None = Field(
        None,
        description="Variants of a study: one key with the values to compare, or names with their changed keys.",
    )

    _added_judges: frozenset[str] = PrivateAttr(frozenset())  # labels of judges added to the run later

    @model_validator(mode="after")
    def _edge_types(self) -> RunConfig:
        """Fill in `prompts.edge_types`, so that config.yaml of a run states it."""
        if self.prompts.edge_types is None:
            source = None if self.graph is None else SOURCES.get(self.graph.source)
            edge_types = bool(getattr(source, "specific_relations", False))
            object.__setattr__(self, "prompts", self.prompts.model_copy(update={"edge_types": edge_types}))
        return self

    @property
    def steps(self) -> list[StepSettings]:
        """Settings of the steps of all passes, in order; only the first of alternative passes counts."""
        by_label: dict[str, StepSettings] = {}
        for pass_config in self.passes:
            by_label |= {step.label: step for step in pass_config.steps if step.label not in by_label}
        return list(by_label.values())

    def variant_configs(self) -> dict[str, RunConfig]:
        """Checked configurations of a study's variants, by variant name; empty for other runs. Raises ConfigError."""
        if self.variants is None:
            return {}
        plain = self.plain()
        return {
            name: parse_config(applied(plain, name, change), f"variants.{name}")
            for name, change in changes(self.variants).items()
        }

    def engine_of(self, pass_name: str) -> Any:
        """The engine configuration of a pass."""
        return next(p.engine or self.engine for p in self.passes if p.name == pass_name)

    def changed(self, where: str, **keys: Any) -> RunConfig:
        """A copy with these sections replaced, checked again. Raises ConfigError; `where` names the origin in it."""
        return parse_config({**self.plain(), **keys}, where)

    def with_last_steps(self) -> RunConfig:
        """A copy in which `dataset.steps` has replaced settings of the last steps that use no engine.

        Raises ConfigError for the label of any other step, or a wrong setting.
        """
        changes = self.dataset.steps or {}
        data = self.plain()
        steps = data["passes"][-1]["steps"]
        steps_from_end = reversed(self.passes[-1].steps)
        last = [s.label for s in takewhile(lambda s: not STEPS.get(s.use).asks_with(s), steps_from_end)]
        if strangers := sorted(changes.keys() - set(last)):
            raise ConfigError(
                f"dataset.steps.{strangers[0]}: is no step at the end of the last pass that asks no engine; "
                f"such steps: {', '.join(reversed(last)) or 'none'}"
            )
        data["passes"][-1]["steps"] = [step | changes.get(step["as"], {}) for step in steps]
        data["dataset"]["steps"] = None
        return parse_config(data, "dataset.steps")

    def plain(self) -> dict[str, Any]:
        """The configuration in JSON types with every default written out, as in config.yaml of a run."""
        return self.model_dump(mode="json")


def decision_of(config: RunConfig) -> Decision:
    """The rule of `dataset.decide` over the run's judging steps, in their order. Raises ConfigError."""
    judges = {
        settings.label: step.objection
        for settings in config.steps
        if settings.use in STEPS and (step := STEPS.get(settings.use)).adds == "verdict"
    }
    unknown = dict.fromkeys(sorted(config._added_judges - judges.keys()), _abstain)
    return decision(config.dataset.decide, judges | unknown)


def _abstain(verdict: Any) -> None:
    """Placeholder for a judge whose step is not in this configuration; it makes no objection."""


def parse_config(
    data: dict[str, Any], where: str, base: Path | None = None, added_judges: Collection[str] = ()
) -> RunConfig:
    """Check plain data completely and return the configuration.

    `where` names the origin of the data in messages. Relative paths start in `base`, and the files of `plugins:` are
    loaded; without `base`, paths are absolute and the caller has loaded the files. `added_judges` are labels that
    `dataset.decide` may name besides those of the passes. Raises ConfigError.
    """
    plugins = data.get("plugins")
    for file in plugins if isinstance(plugins, list) else ():
        if isinstance(file, str) and base is not None:
            load_plugin_file((base / Path(file).expanduser()).resolve())
    problems = Problems()
    try:
        data = with_alternatives(data if base is None else with_paths(data, base))
    except ConfigError as problem:
        problems.add((), problem.message)
    anchors = section(KINDS, "kind", data.get("anchors", {}), ("anchors",), problems, "graphlet", base)
    data = {**data, "anchors": anchors or KINDS.get("graphlet").Settings()}
    if "graph" not in data and KINDS.get(data["anchors"].kind).needs_graph:
        data["graph"] = {}
    if data.get("graph") is not None:
        try:
            data["graph"] = graph_config(data["graph"], base)
        except ConfigError as problem:
            problems.lines += problem.message.splitlines()
            data["graph"] = None
    data["passes"] = read_passes(data, problems, base)
    if "engine" not in data and isinstance(data["passes"], list) and not any(map(asks, data["passes"])):
        data["engine"] = {"kind": "scripted"}  # never started
    try:
        config = RunConfig.model_validate(data, context={"base": base})
    except ValidationError as problem:
        problems.add_all((), RunConfig, problem)
    else:
        config._added_judges = frozenset(added_judges)
        _check_chain(config, problems, kind_known=anchors is not None)
        if not problems.lines:
            _check_variants(config, problems)
            _check_target(config, problems)
            _check_budget(config, problems)
    if problems.lines:
        raise ConfigError(
            "\n".join(f"{where}: {line}" for line in problems.lines), "see docs/reference/config.md"
        )
    return config


def _check_chain(config: RunConfig, problems: Problems, *, kind_known: bool) -> None:
    """Check that pass names and step labels are unique, and that earlier steps add the fields each step reads.

    The fields are checked only if the anchor kind is known.
    """
    names = [pass_config.name for pass_config in config.passes]
    if len(set(names)) != len(names):
        problems.add(("passes",), f"pass names must differ: {', '.join(names)}")
    first_variant = next((pass_config.variant for pass_config in config.passes if pass_config.variant), None)
    together = [pass_config for pass_config in config.passes if pass_config.variant in (None, first_variant)]
    labels = [step.label for pass_config in together for step in pass_config.steps]
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        problems.add(("passes",), f"two steps are called {label}; give one another name with `as:`")
    available = set(KINDS.get(config.anchors.kind).gives)
    for number, pass_config in enumerate(config.passes):
        for position, settings in enumerate(pass_config.steps):
            kind_known = kind_known and settings.use in STEPS  # the fields of a refused step are unknown
            # The configurations of a study's variants are checked separately.
            if kind_known and config.variants is None:
                _check_step(settings, available, ("passes", number, "steps", position), problems)
                available |= set(STEPS.get(settings.use).gives)
    imitated = [step for step in config.steps if step.imitates and getattr(step, step.imitates)]
    if imitated and "decontaminate" not in config.dataset.model_fields_set:
        missing = f"the test file of the benchmark that {imitated[0].label} takes examples from"
        problems.add(("dataset", "decontaminate"), f"is missing: name {missing}, or give [] to go without")
    try:
        decision_of(config)
        if config.dataset.steps:
            config.with_last_steps()
    except ConfigError as problem:
        problems.add((), problem.message)


def _check_variants(config: RunConfig, problems: Problems) -> None:
    try:
        configs = config.variant_configs()
    except ConfigError as problem:
        problems.add((), problem.message)
        return
    strangers = {pass_config.variant for pass_config in config.passes if pass_config.variant} - configs.keys()
    for name in sorted(strangers):
        problems.add(("passes",), f"variant {name} is none of this study")
    for name, variant in configs.items():
        if variant.graph is None and KINDS.get(variant.anchors.kind).needs_graph:
            problems.add(("variants", name), f"anchors of kind {variant.anchors.kind} need a graph: section")


def _check_target(config: RunConfig, problems: Problems) -> None:
    """Check that a target has a sample that can grow, and that its initial size fits the budget."""
    if config.target is None:
        return
    key = type(config.anchors).size
    if config.variants is not None:
        problems.add(("target",), "a study has none")
    elif getattr(config.anchors, key, None) is None:
        problems.add(("target",), f"needs anchors.{key}: the sample it begins with")
    else:
        begin = KINDS.get(config.anchors.kind)().expected(config.anchors)
        if begin and begin > (config.target.budget.items or begin):
            problems.add(("target", "budget", "items"), f"the sample it begins with has up to {begin:,}")


def _check_budget(config: RunConfig, problems: Problems) -> None:
    """Check that a budget has a limit, and that a budget of money has prices."""
    limits = config.runtime.budget.limits if config.runtime.budget else None
    if limits == {}:
        problems.add(("runtime", "budget"), "has no limit: money, tokens, items or hours")
    asked = config.target.budget.money if config.target else None
    key = ("runtime",) if limits and "money" in limits else ("target",) if asked else None
    if key and not any(config.engine_of(entry.name).price for entry in config.passes):
        problems.add(
            (*key, "budget", "money"),
            "no engine has a price: engine.price: {input: …, output: …} of a million tokens",
        )


def _check_step(settings: StepSettings, available: set[str], key: Key, problems: Problems) -> None:
    step = STEPS.get(settings.use)
    if missing := [name for name in step.needs if name not in available]:
        problems.add(key, f"{settings.use} reads {', '.join(missing)}, which nothing before it adds")
    asks = step.asks_with(settings)
    if asks and settings.prompt is None:
        problems.add((*key, "prompt"), f"is missing: step {settings.use} has no prompt of its own")
    if not asks and settings.prompt is not None:
        problems.add((*key, "prompt"), f"step {settings.use} asks nobody and takes no prompt")
    if settings.later_prompts and (not asks or step.turns < 2):
        problems.add((*key, "later_prompts"), f"step {settings.use} does not ask in turns")
    if not asks and settings.temperature is not None:
        problems.add((*key, "temperature"), f"step {settings.use} asks nobody and takes no temperature")

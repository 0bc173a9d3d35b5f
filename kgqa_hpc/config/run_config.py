"""The configuration of a run as a whole, checked completely before anything starts.

Every setting is one typed field with one sentence. Unknown keys are refused with the nearest known one, and
all errors are reported at once.
"""

from collections.abc import Collection, Iterator
from itertools import takewhile
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config.sections import DatasetConfig, PassConfig, PromptConfig, RuntimeConfig, Target
from kgqa_hpc.config.variants import applied, asks, changes, with_alternatives, with_paths, with_step_defaults
from kgqa_hpc.engines import EngineConfig
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.kg.settings import GraphConfig, graph_config
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import load_plugin_file
from kgqa_hpc.settings import Key, KindSettings, Settings, StepSettings, line, lines_of, problems_of, section
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import Decision, decision

REFUSED = "(refused)"  # `use` of the placeholder for a refused step
_PLACEHOLDERS = {"anchors": {"kind": "graphlet"}, "engine": {"kind": "scripted"}}
GUIDE = "see docs/reference/config.md"


_ANCHORS = BeforeValidator(
    lambda value, info: section(KINDS, "kind", value, (info.context or {}).get("base"), "graphlet")
)


class RunConfig(Settings):
    """Configuration of a run: the whole YAML file."""

    paths = ("plugins",)

    plugins: list[str] = Field(
        default_factory=list,
        exclude_if=lambda value: not value,
        description="Python files with your own entries (docs/guide/extending.md).",
    )
    seed: int = Field(42, ge=0, lt=2**63, description="Random seed of all sampling.")
    graph: SerializeAsAny[GraphConfig] | None = Field(
        None, description="Knowledge graph; default: the bundled one, if the anchors need one."
    )
    anchors: Annotated[SerializeAsAny[KindSettings], _ANCHORS] = Field(
        description="Evidence of questions, and how much of it; default: graphlets."
    )
    prompts: PromptConfig = Field(PromptConfig(), description="Prompts of the steps.")
    engine: EngineConfig = Field(description="Engine that answers the prompts.")
    passes: list[PassConfig] = Field(min_length=1, description="Passes over all shards; default: one, main.")
    runtime: RuntimeConfig = Field(RuntimeConfig(), description="Shards, time limits, restarts, budget.")
    dataset: DatasetConfig = Field(
        DatasetConfig(), description="Filters, split and metadata that `kgqa merge` applies."
    )
    target: Target | None = Field(None, description="Accepted records to reach; the sample grows until then.")
    variants: dict[str, list[Any] | dict[str, Any]] | None = Field(
        None, description="Variants of a study: a key with the values to compare, or names with changed keys."
    )

    _added_judges: frozenset[str] = PrivateAttr(frozenset())  # labels of judges added to the run later

    @model_validator(mode="after")
    def _filled(self) -> Self:
        """Fill in the bundled graph and `prompts.edge_types`, so that config.yaml of a run states them."""
        if "graph" not in self.model_fields_set and KINDS.get(self.anchors.kind).needs_graph:
            object.__setattr__(self, "graph", graph_config({}))
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

    def variant_configs(self) -> "dict[str, RunConfig]":
        """Checked configurations of a study's variants, by variant name; empty for other runs. Raises ConfigError."""
        if self.variants is None:
            return {}
        plain = self.plain()
        return {
            name: parse_config(applied(plain, name, change), f"variants.{name}")
            for name, change in changes(self.variants).items()
        }

    @property
    def engines(self) -> list[Any]:
        """The engine configuration of each pass."""
        return [pass_config.engine or self.engine for pass_config in self.passes]

    def engine_of(self, pass_name: str) -> Any:
        """The engine configuration of a pass."""
        return next(p.engine or self.engine for p in self.passes if p.name == pass_name)

    def changed(self, where: str, **keys: Any) -> "RunConfig":
        """A checked copy with these sections replaced. Raises ConfigError, whose message begins with `where`."""
        return parse_config({**self.plain(), **keys}, where)

    def with_last_steps(self) -> "RunConfig":
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
    # A judge whose step is not in this configuration makes no objection.
    unknown = dict.fromkeys(sorted(config._added_judges - judges.keys()), lambda verdict: None)
    return decision(config.dataset.decide, judges | unknown)


def parse_config(
    data: dict[str, Any], where: str, base: Path | None = None, added_judges: Collection[str] = ()
) -> RunConfig:
    """Check plain data completely and return the configuration; arguments and errors as in `check_config`.

    `where` names the origin of the data in messages. Raises ConfigError.
    """
    config, lines = check_config(data, base, added_judges)
    if config is None or lines:
        raise ConfigError("\n".join(f"{where}: {text}" for text in lines), GUIDE)
    return config


def check_config(
    data: dict[str, Any], base: Path | None = None, added_judges: Collection[str] = ()
) -> tuple[RunConfig | None, list[str]]:
    """The configuration that plain data describes, and a line for each problem, which begins with its key.

    With problems the configuration has defaults in place of refused settings, and REFUSED in place of refused steps;
    it is None if the rest cannot be checked. Relative paths start in `base`, and the files of `plugins:` are
    loaded; without `base`, paths are absolute and the caller has loaded the files. `added_judges` are labels that
    `dataset.decide` may name besides those of the passes. Raises ConfigError for a file of `plugins:`.
    """
    plugins = data.get("plugins")
    for file in plugins if isinstance(plugins, list) else ():
        if isinstance(file, str) and base is not None:
            load_plugin_file((base / expanduser(file)).resolve())
    lines: list[str] = []
    try:
        data = with_alternatives(data if base is None else with_paths(data, base))
    except ConfigError as problem:
        lines.append(problem.message)
    data = {"anchors": {}, **data, "passes": with_step_defaults(data)}
    if data.get("graph") is not None:
        try:
            data["graph"] = graph_config(data["graph"], base)
        except ConfigError as problem:
            lines += problem.message.splitlines()
            data["graph"] = None
    if "engine" not in data and not asks(data["passes"]):
        data["engine"] = {"kind": "scripted"}  # no step asks, so it never starts
    config: RunConfig | None
    anchors_known = True
    try:
        config = RunConfig.model_validate(data, context={"base": base})
    except ValidationError as problem:
        lines += lines_of(RunConfig, problem)
        refused = {entry.key[:4] for entry in problems_of(problem)}
        anchors_known = not any(key[0] == "anchors" for key in refused)
        config = _without(refused, data)
    if config is not None:
        config._added_judges |= frozenset(added_judges)
        further = list(_chain_problems(config, anchors_known))
        if not lines and not further:
            further = [*_variant_problems(config), *_cost_problems(config)]
        lines += [line(key, text) for key, text in further]
    return config, lines


def _without(refused: Collection[Key], data: dict[str, Any]) -> RunConfig | None:
    """The configuration without refused settings, and with placeholders for refused anchors, engine and steps, so that
    the rest can still be checked.

    Returns None if the remaining configuration is refused, too. `refused` holds the first four parts of the keys.
    """
    data, judges = {**data}, list[str]()
    for key in refused:
        if key[0] in _PLACEHOLDERS:
            data[str(key[0])] = _PLACEHOLDERS[str(key[0])]
            continue
        if key[0] in ("prompts", "runtime", "dataset") and len(key) > 1:
            data[str(key[0])] = {name: value for name, value in data[key[0]].items() if name != key[1]}
            continue
        if key[0] not in ("passes", "variants"):
            data.pop(str(key[0]), None)
            continue
        if len(key) < 4 or key[2] != "steps":
            return None
        number, position = int(key[1]), int(key[3])
        changed = data["passes"][number]
        steps = list(changed["steps"])
        entry = steps[position] if isinstance(steps[position], dict) else {}
        use, label = str(entry.get("use")), str(entry.get("as", f"refused {number}.{position}"))
        if "as" in entry and (use not in STEPS or STEPS.get(use).adds == "verdict"):
            judges.append(label)
        steps[position] = StepSettings.model_construct(use=REFUSED, label=label)
        data["passes"] = [{**p, "steps": steps} if p is changed else p for p in data["passes"]]
    try:
        config = RunConfig.model_validate(data)
    except ValidationError:
        return None
    config._added_judges = frozenset(judges)  # `decide` may name a judge whose step was refused
    return config


def _chain_problems(config: RunConfig, anchors_known: bool = True) -> Iterator[tuple[Key, str]]:
    """Pass names and step labels must be unique, and earlier steps add the fields that each step reads.

    The fields are known only up to a refused step.
    """
    names = [pass_config.name for pass_config in config.passes]
    if len(set(names)) != len(names):
        yield ("passes",), f"pass names must differ: {', '.join(names)}"
    first_variant = next((pass_config.variant for pass_config in config.passes if pass_config.variant), None)
    together = [pass_config for pass_config in config.passes if pass_config.variant in (None, first_variant)]
    labels = [step.label for pass_config in together for step in pass_config.steps]
    for label in sorted({label for label in labels if labels.count(label) > 1}):
        yield ("passes",), f"two steps are called {label}; give one another name with `as:`"
    # The configurations of variants are checked separately.
    fields_known = anchors_known and config.variants is None
    available = set(KINDS.get(config.anchors.kind).gives)
    many = ""  # name of the step that makes several records of an item
    for number, pass_config in enumerate(config.passes):
        for position, settings in enumerate(pass_config.steps):
            fields_known = fields_known and settings.use != REFUSED
            if fields_known:
                step, key = STEPS.get(settings.use), ("passes", number, "steps", position)
                # A record that is judged again may have any field.
                free = step.needs if config.anchors.kind == "records" and step.adds == "verdict" else ()
                yield from _step_problems(settings, available.union(free), key)
                # A step of the user's own may read all records of an item.
                if many and "answer" in step.needs and STEPS.ships(settings.use):
                    cure = "use it in a run over them (anchors: kind records)"
                    yield key, f"{settings.use} works on one record, but {many} makes many of an item: {cure}"
                available |= set(step.gives)
                many = settings.use if step.many else many
    imitated = [step for step in config.steps if step.imitates and getattr(step, step.imitates)]
    if imitated and "decontaminate" not in config.dataset.model_fields_set:
        missing = f"the test file of the benchmark that {imitated[0].label} takes examples from"
        yield ("dataset", "decontaminate"), f"is missing: name {missing}, or give [] to go without"
    try:
        decision_of(config)
        if config.dataset.steps and all(step.use != REFUSED for step in config.steps):
            config.with_last_steps()
    except ConfigError as problem:
        yield (), problem.message


def _step_problems(settings: StepSettings, available: set[str], key: Key) -> Iterator[tuple[Key, str]]:
    use, step = settings.use, STEPS.get(settings.use)
    if missing := [name for name in step.needs if name not in available]:
        yield key, f"{use} reads {', '.join(missing)}, which nothing before it adds"
    asking = step.asks_with(settings)
    if asking and settings.prompt is None:
        yield (*key, "prompt"), f"is missing: step {use} has no prompt of its own"
    if not asking and settings.prompt is not None:
        yield (*key, "prompt"), f"step {use} asks no model and takes no prompt"
    if settings.later_prompts and (not asking or step.turns == 1):
        yield (*key, "later_prompts"), f"step {use} does not ask in turns"
    if not asking and settings.temperature is not None:
        yield (*key, "temperature"), f"step {use} asks no model and takes no temperature"


def _variant_problems(config: RunConfig) -> Iterator[tuple[Key, str]]:
    try:
        configs = config.variant_configs()
    except ConfigError as problem:
        yield (), problem.message
        return
    strangers = {pass_config.variant for pass_config in config.passes if pass_config.variant} - configs.keys()
    for name in sorted(strangers):
        yield ("passes",), f"variant {name} is none of this study"
    for name, variant in configs.items():
        if variant.graph is None and KINDS.get(variant.anchors.kind).needs_graph:
            yield ("variants", name), f"anchors of kind {variant.anchors.kind} need a graph: section"


def _cost_problems(config: RunConfig) -> Iterator[tuple[Key, str]]:
    """A target needs a sample that can grow and fits its budget; a budget has a limit, one of money has prices."""
    target, key = config.target, type(config.anchors).size
    if target and config.variants is not None:
        yield ("target",), "a study has none"
    elif target and getattr(config.anchors, key, None) is None:
        yield ("target",), f"needs anchors.{key}: the sample it begins with"
    elif target:
        begin = KINDS.get(config.anchors.kind)().expected(config.anchors)
        if begin and begin > (target.budget.items or begin):
            yield ("target", "budget", "items"), f"the sample it begins with has up to {begin:,}"
    limits = config.runtime.budget.limits if config.runtime.budget else None
    if limits == {}:
        yield ("runtime", "budget"), "has no limit: money, tokens, items or hours"
    section_name = (
        "runtime" if limits and "money" in limits else "target" if target and target.budget.money else ""
    )
    if section_name and not any(engine.price for engine in config.engines):
        yield (
            (section_name, "budget", "money"),
            "no engine has a price: engine.price: {input: …, output: …} of a million tokens",
        )

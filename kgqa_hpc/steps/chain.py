"""The steps of a pass, with their prompts loaded and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import AnchorKind
from kgqa_hpc.config import RunConfig
from kgqa_hpc.engines.engine import EngineInfo
from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.prompt import Prompt, load_prompt, try_prompt
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import Decision, decision
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Step, StepContext
from kgqa_hpc.steps.variants import StepFamily

EXAMPLES: dict[str, Any] = {
    "string": "An example.",
    "boolean": True,
    "integer": 1,
    "number": 1.0,
    "array": [],
}


def kind_of(config: RunConfig) -> AnchorKind:
    """The anchor kind of a run."""
    kind: AnchorKind = KINDS.get(config.anchors.kind)()
    return kind


def build_chain(
    config: RunConfig, pass_name: str, engine: EngineInfo | None = None, prompts: Path | None = None
) -> list[Step]:
    """The steps of the pass in order. `engine` goes into the trace; without it, `set_engine` before the
    first answer. `prompts` is a folder that is searched instead of the configuration's.

    Raises PromptError as `load_prompt`, for a prompt that serves another step, and for
    one that names what its step does not have.
    """
    context = StepContext(
        config.seed,
        kind_of(config),
        config.prompts.edge_types,
        decision_of(config),
        engine,
    )
    folder = prompts or config.prompts.folder
    steps = next(each.steps for each in config.passes if each.name == pass_name)
    varied = config.variant_steps()

    def made(settings: StepSettings) -> Step:
        if varied is None or settings.label != varied[0]:
            return _step(settings, context, folder, config.prompts.domain)
        variants = varied[1].items()
        return StepFamily(
            {name: _step(one, context, folder, config.prompts.domain) for name, one in variants}
        )

    chain = [made(settings) for settings in steps]
    _try_prompts(chain, context, _fields_before(config, pass_name))
    return chain


def set_engine(chain: list[Step], engine: EngineInfo) -> None:
    """Say which engine answers from now on; steps of one chain share it."""
    for step in chain:
        step.context.engine = engine


def decision_of(config: RunConfig) -> Decision:
    """The rule of `dataset.decide` over the run's judging steps, in their order. Raises ConfigError."""
    judges = {
        settings.label: step.objection
        for settings in config.steps
        if (step := STEPS.get(settings.use)).adds == "verdict"
    }
    return decision(config.dataset.decide, judges)


def run_prompts(config: RunConfig, prompts: Path | None = None, only: str | None = None) -> dict[str, Prompt]:
    """All prompts of a run (or of the pass `only`) by name. Raises PromptError."""
    return {
        one.prompt.name: one.prompt
        for each in config.passes
        if only in (None, each.name)
        for step in build_chain(config, each.name, prompts=prompts)
        for one in step.members
        if one.asks
    }


def schemas_of(chain: list[Step]) -> list[dict[str, Any]]:
    """The schemas of all answers that an engine will be asked for."""
    return [one.prompt.schema for step in chain for one in step.members if one.asks]


def _step(settings: StepSettings, context: StepContext, folder: str | Path | None, domain: str) -> Step:
    made: type[Step] = STEPS.get(settings.use)
    if settings.prompt is None:
        return made(settings, None, context)
    prompt = load_prompt(settings.prompt, folder, domain)
    if prompt.step != settings.use:
        raise PromptError(
            f"step {settings.label}: {settings.prompt} is a prompt of step {prompt.step}",
            f"name one with step: {settings.use} in its head",
        )
    return made(settings, prompt, context)


def _fields_before(config: RunConfig, pass_name: str) -> dict[str, Any]:
    """Example values of the record's fields that the kind and earlier passes add."""
    kind = kind_of(config)
    fields = dict.fromkeys(kind.gives, EXAMPLES["string"]) | kind.start(kind.sample)
    for each in config.passes:
        if each.name == pass_name:
            break
        for settings in each.steps:
            made: type[Step] = STEPS.get(settings.use)
            fields |= {**dict.fromkeys(made.gives, EXAMPLES["string"]), **made.example}
    return fields


def _try_prompts(chain: list[Step], context: StepContext, fields: dict[str, Any]) -> None:
    """Try every prompt on the kind's sample, as its step will fill it in."""
    kind = context.kind
    for step in (one for each in chain for one in each.members):
        if step.asks:
            item = Item(kind.sample, output=dict(fields))
            own, shown = step.variables(item), kind.variables(kind.sample)
            samples = [shown | own] + [shown | {"relations": []} | own] * ("relations" in shown)
            try_prompt(step.prompt, f"step {step.label}", samples)
            schema = step.prompt.schema["properties"]
            fields |= {name: EXAMPLES[schema[name]["type"]] for name in step.gives if name in schema}
        else:
            fields |= dict.fromkeys(step.gives, EXAMPLES["string"])
        fields |= step.example

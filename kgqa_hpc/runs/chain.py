"""Builder of a pass's chain of steps, with loaded and checked prompts."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import AnchorKind
from kgqa_hpc.columns import check_columns
from kgqa_hpc.config import RunConfig, decision_of
from kgqa_hpc.engines.engine import EngineInfo
from kgqa_hpc.errors import ExtensionError, PromptError
from kgqa_hpc.prompts.files import Folders, lacking, place, read_text
from kgqa_hpc.prompts.prompt import Prompt, load_prompt, try_prompt
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import Item, check_kind
from kgqa_hpc.steps.step import ADDS, Step, StepContext
from kgqa_hpc.steps.variants import KindFamily, StepFamily

# Values of a record's fields, by their JSON type, with which prompts are rendered before a run begins.
EXAMPLES: dict[str, Any] = {
    "string": "An example.",
    "boolean": True,
    "integer": 1,
    "number": 1.0,
    "array": [],
}


def kind_of(config: RunConfig) -> AnchorKind:
    """The anchor kind of a run; a KindFamily if the variants of a study have several kinds."""
    names = dict.fromkeys(variant.anchors.kind for variant in (config, *config.variant_configs().values()))
    kinds: list[AnchorKind] = [KINDS.get(name)() for name in names]
    for kind in kinds:
        check_columns(kind.columns, KINDS.entry(kind.name))
        check_kind(kind)
    return kinds[0] if len(kinds) == 1 else KindFamily(kinds)


def build_chain(
    config: RunConfig, pass_name: str, engine: EngineInfo | None = None, prompts: Path | None = None
) -> list[Step]:
    """The steps of the pass in order.

    `engine` goes into the trace; if it is not given here, call `set_engine` before the first answer. `prompts` is a
    folder that is searched instead of the configuration's.

    Raises PromptError as `load_prompt` does, for a prompt of another step, and for a prompt with variables that its
    step does not supply.
    """
    only = next(entry.variant for entry in config.passes if entry.name == pass_name)
    variants = {name: v for name, v in config.variant_configs().items() if only in (None, name)}
    kind = kind_of(config)
    if not variants:
        return _chain(config, pass_name, kind, engine, prompts)
    chains = {name: _chain(variant, pass_name, kind, engine, prompts) for name, variant in variants.items()}
    chain: list[Step] = []
    for steps in zip(*chains.values(), strict=True):
        reference, *compared = ([step.settings, step.context.edge_types, step.prompts] for step in steps)
        differ = any(step != reference for step in compared)
        chain.append(StepFamily(dict(zip(chains, steps, strict=True))) if only or differ else steps[0])
    return chain


def _chain(
    config: RunConfig, pass_name: str, kind: AnchorKind, engine: EngineInfo | None, prompts: Path | None
) -> list[Step]:
    folder, domain = prompts or config.prompts.folder, config.prompts.domain
    settings = next(entry.steps for entry in config.passes if entry.name == pass_name)
    instructions: tuple[str, ...] = ()  # the system texts of all prompts that write fields of the records
    if any(STEPS.get(s.use).sees_instructions for s in settings):
        writers = [step for step in config.steps if step.prompt and STEPS.get(step.use).adds == "output"]
        instructions = tuple(load_prompt(str(step.prompt), folder, domain).system for step in writers)
    context = StepContext(
        config.seed, kind, bool(config.prompts.edge_types), decision_of(config), engine, instructions
    )
    chain = [_step(step_settings, context, folder, domain) for step_settings in settings]
    _try_prompts(chain, config, pass_name)
    return chain


def set_engine(chain: list[Step], engine: EngineInfo) -> None:
    """Set the engine that the chain's steps record in the trace."""
    for step in (member for family in chain for member in family.members):
        step.context.engine = engine


def run_prompts(
    config: RunConfig, prompts: Path | None = None, only: Collection[str] | None = None
) -> dict[str, Prompt]:
    """All prompts of a run (or those of the passes `only`) by name. Raises PromptError."""
    names = [entry.name for entry in config.passes if only is None or entry.name in only]
    chain = [step for name in names for step in build_chain(config, name, prompts=prompts)]
    return {prompt.name: prompt for step in chain for member in step.members for prompt in member.prompts}


def schemas_of(chain: list[Step]) -> list[dict[str, Any]]:
    """The JSON schemas of all answers that the chain requests."""
    return [prompt.schema for step in chain for member in step.members for prompt in member.prompts]


def _step(settings: StepSettings, context: StepContext, folder: str | Path | None, domain: str) -> Step:
    """A step with its prompts. Raises ExtensionError if its class lacks a method, or declares an unknown addition."""
    entry: type[Step] = STEPS.get(settings.use)
    asks, name = entry.asks_with(settings), STEPS.entry(settings.use)
    if entry.adds not in ADDS:
        raise ExtensionError(f"{name}: adds {entry.adds!r}", f"`adds` is one of {', '.join(ADDS)}")
    if asks and entry.accept is Step.accept and entry.adds != "verdict":
        raise ExtensionError(f"{name}: has no accept(item, answer)", "say there what an answer means")
    if not asks and entry.compute is Step.compute:
        raise ExtensionError(
            f"{name}: has no compute(item), and no `answer` to ask for", "give it one of the two"
        )
    with STEPS.calling(settings.use):
        columns = entry.columns_for(settings)
    check_columns(columns, name)
    prompts = prompts_of(settings, folder, domain)
    with STEPS.calling(settings.use):
        step = entry(settings, prompts[0] if prompts else None, context)
    if not (isinstance(step.turns, int) and step.turns > 0):
        raise ExtensionError(f"{name}: turns is {step.turns!r:.80}", "give a number from 1")
    step.prompts = tuple(prompts)
    return step


def prompts_of(settings: StepSettings, folder: str | Path | None, domain: str) -> list[Prompt]:
    """The prompts of a step's turns.

    Raises PromptError, also for a prompt of another step, or a schema without a field that the step reads.
    """
    entry: type[Step] = STEPS.get(settings.use)
    answers = (entry.answer, *entry.later_answers)
    prompts: list[Prompt] = []
    for name in (settings.prompt, *(settings.later_prompts or ())):
        if name is None:
            continue
        prompt = load_prompt(name, folder, domain)
        if prompt.step not in STEPS:
            raise PromptError(f"{place(prompt.file, 'step')}: {STEPS.unknown(prompt.step)}")
        if prompt.step != settings.use:
            folders = Folders.with_user(folder, domain)
            head = re.compile(rf"^step: {re.escape(settings.use)}\s*$", re.MULTILINE)
            names = [fit for fit in folders.names() if head.search(read_text(folders.prompt(fit)))]
            raise PromptError(
                f"step {settings.label}: {name} is a prompt of step {prompt.step}",
                f"prompts of step {settings.use}: {', '.join(names) or 'none yet'}",
            )
        answer = answers[min(len(prompts), len(answers) - 1)]  # the last entry applies to all later turns
        for problem in lacking(prompt.fields, settings.use, answer):
            raise PromptError(f"{place(prompt.file, 'schema')}: {problem}")
        prompts.append(prompt)
    for answer in answers[len(prompts) :] if prompts else ():  # turns that the last prompt serves too
        for problem in lacking(prompts[-1].fields, settings.use, answer):
            raise PromptError(
                f"step {settings.label}: {prompts[-1].name} serves later turns too: {problem}",
                "name their prompts: later_prompts: [NAME]",
            )
    return prompts


def _try_prompts(chain: list[Step], config: RunConfig, pass_name: str) -> None:
    """Render every prompt with the kind's sample anchor and example fields of the record. Raises PromptError.

    The record has the fields that the kind, earlier passes and earlier steps of this pass add.
    """
    kind, example = kind_of(config), EXAMPLES["string"]
    with KINDS.calling(config.anchors.kind):
        fields = dict.fromkeys(kind.gives, example) | kind.start(kind.sample)
    position = [entry.name for entry in config.passes].index(pass_name)
    for settings in (settings for entry in config.passes[:position] for settings in entry.steps):
        earlier: type[Step] = STEPS.get(settings.use)
        fields |= {**dict.fromkeys(earlier.gives, example), **earlier.example}
    for step in chain:
        if step.asks:
            item = Item(kind.sample, output=dict.fromkeys(step.needs, example) | fields)
            values, of_kind = step.variables(item), kind.variables(kind.sample)
            samples = [of_kind | values] + [of_kind | {"relations": []} | values] * ("relations" in of_kind)
            for prompt in step.prompts:
                try_prompt(prompt, f"step {step.label}", samples)
            schema = step.prompt.schema["properties"]
            fields |= {name: EXAMPLES[schema[name]["type"]] for name in step.gives if name in schema}
        else:
            fields |= dict.fromkeys(step.gives, example)
        fields |= step.example

"""The steps of a pass, with their prompts loaded and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import AnchorKind
from kgqa_hpc.columns import check_columns
from kgqa_hpc.config import RunConfig, decision_of
from kgqa_hpc.engines.engine import EngineInfo
from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.folders import Folders, read_text
from kgqa_hpc.prompts.front_matter import lacking, place
from kgqa_hpc.prompts.prompt import Prompt, load_prompt, try_prompt
from kgqa_hpc.settings import StepSettings
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.evidence import check_kind
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Step, StepContext
from kgqa_hpc.steps.variants import KindFamily, StepFamily

EXAMPLES: dict[str, Any] = {
    "string": "An example.",
    "boolean": True,
    "integer": 1,
    "number": 1.0,
    "array": [],
}


def kind_of(config: RunConfig) -> AnchorKind:
    """The anchor kind of a run; the family of them where a study's variants have several."""
    names = dict.fromkeys(one.anchors.kind for one in (config, *config.variant_configs().values()))
    kinds: list[AnchorKind] = [KINDS.get(name)() for name in names]
    for kind in kinds:
        check_columns(kind.columns, KINDS.entry(kind.name))
        check_kind(kind)
    return kinds[0] if len(kinds) == 1 else KindFamily(kinds)


def build_chain(
    config: RunConfig, pass_name: str, engine: EngineInfo | None = None, prompts: Path | None = None
) -> list[Step]:
    """The steps of the pass in order. `engine` goes into the trace; without it, `set_engine` before the
    first answer. `prompts` is a folder that is searched instead of the configuration's.

    Raises PromptError as `load_prompt`, for a prompt that serves another step, and for
    one that names what its step does not have.
    """
    only = next(each.variant for each in config.passes if each.name == pass_name)
    variants = {n: one for n, one in config.variant_configs().items() if only in (None, n)}
    kind = kind_of(config)
    if not variants:
        return _chain(config, pass_name, kind, engine, prompts)
    chains = {name: _chain(one, pass_name, kind, engine, prompts) for name, one in variants.items()}
    families = (dict(zip(chains, steps, strict=True)) for steps in zip(*chains.values(), strict=True))
    return [
        StepFamily(members) if only or _differ(list(members.values())) else next(iter(members.values()))
        for members in families
    ]


def _differ(steps: list[Step]) -> bool:
    """Whether steps of several variants do not do the same."""
    first, *others = ([s.settings, s.context.edge_types, s.prompts] for s in steps)
    return any(one != first for one in others)


def _chain(
    config: RunConfig, pass_name: str, kind: AnchorKind, engine: EngineInfo | None, prompts: Path | None
) -> list[Step]:
    folder = prompts or config.prompts.folder
    settings = next(each.steps for each in config.passes if each.name == pass_name)
    shown = _instructions(config, folder) if any(STEPS.get(s.use).sees_instructions for s in settings) else ()
    context = StepContext(
        config.seed, kind, bool(config.prompts.edge_types), decision_of(config), engine, shown
    )
    chain = [_step(one, context, folder, config.prompts.domain) for one in settings]
    _try_prompts(chain, kind_of(config), _fields_before(config, pass_name))
    return chain


def _instructions(config: RunConfig, folder: str | Path | None) -> tuple[str, ...]:
    """The constant part of every prompt by which the run's records are written."""
    return tuple(
        load_prompt(one.prompt, folder, config.prompts.domain).system
        for one in config.steps
        if one.prompt is not None and STEPS.get(one.use).adds == "output"
    )


def set_engine(chain: list[Step], engine: EngineInfo) -> None:
    """Say which engine answers from now on; steps of one chain share it."""
    for step in (one for each in chain for one in each.members):
        step.context.engine = engine


def run_prompts(config: RunConfig, prompts: Path | None = None, only: str | None = None) -> dict[str, Prompt]:
    """All prompts of a run (or of the pass `only`) by name. Raises PromptError."""
    return {
        prompt.name: prompt
        for pass_config in config.passes
        if only in (None, pass_config.name)
        for step in build_chain(config, pass_config.name, prompts=prompts)
        for member in step.members
        for prompt in member.prompts
    }


def schemas_of(chain: list[Step]) -> list[dict[str, Any]]:
    """The schemas of all answers that an engine will be asked for."""
    return [prompt.schema for step in chain for member in step.members for prompt in member.prompts]


def _step(settings: StepSettings, context: StepContext, folder: str | Path | None, domain: str) -> Step:
    entry: type[Step] = STEPS.get(settings.use)
    check_columns(entry.columns_for(settings), STEPS.entry(settings.use))
    prompts = prompts_of(settings, folder, domain)
    step = entry(settings, prompts[0] if prompts else None, context)
    if len(prompts) > 1:
        step.set_later_prompts(prompts[1:])
    return step


def prompts_of(settings: StepSettings, folder: str | Path | None, domain: str) -> list[Prompt]:
    """The prompts of a step's turns, each with the fields that the step reads. Raises PromptError."""
    entry: type[Step] = STEPS.get(settings.use)
    later = settings.later_prompts or []
    names = [name for name in (settings.prompt, *later) if name is not None]
    answers = [entry.answer, *entry.later_answers][: len(names)]
    answers += [answers[-1]] * (len(names) - len(answers)) if answers else []
    return [_prompt(settings, *pair, folder, domain) for pair in zip(names, answers, strict=True)]


def _prompt(
    settings: StepSettings, name: str, answer: Mapping[str, str], folder: str | Path | None, domain: str
) -> Prompt:
    prompt = load_prompt(name, folder, domain)
    if prompt.step not in STEPS:
        raise PromptError(
            f"{place(prompt.file, 'step')}: {STEPS.unknown(prompt.step)}", "see docs/prompts.md"
        )
    if prompt.step != settings.use:
        raise PromptError(
            f"step {settings.label}: {name} is a prompt of step {prompt.step}",
            _fitting(settings.use, Folders.with_user(folder, domain)),
        )
    for problem in lacking(prompt.fields, settings.use, answer):
        raise PromptError(f"{place(prompt.file, 'schema')}: {problem}", "see docs/prompts.md")
    return prompt


def _fitting(step: str, folders: Folders) -> str:
    """Which prompts are made for the step, as the cure of a message."""
    head = re.compile(rf"^step: {re.escape(step)}\s*$", re.MULTILINE)
    names = [name for name in folders.names() if head.search(read_text(folders.prompt(name)))]
    return f"prompts of step {step}: {', '.join(names) or 'none yet'}"


def _fields_before(config: RunConfig, pass_name: str) -> dict[str, Any]:
    """Example values of the record's fields that the kind and earlier passes add."""
    kind = kind_of(config)
    with KINDS.calling(config.anchors.kind):
        fields = dict.fromkeys(kind.gives, EXAMPLES["string"]) | kind.start(kind.sample)
    for each in config.passes:
        if each.name == pass_name:
            break
        for settings in each.steps:
            made: type[Step] = STEPS.get(settings.use)
            fields |= {**dict.fromkeys(made.gives, EXAMPLES["string"]), **made.example}
    return fields


def _try_prompts(chain: list[Step], kind: AnchorKind, fields: dict[str, Any]) -> None:
    """Try every prompt on the kind's sample, as its step will fill it in."""
    for step in chain:
        if step.asks:
            item = Item(kind.sample, output=dict(fields))
            own, shown = step.variables(item), kind.variables(kind.sample)
            samples = [shown | own] + [shown | {"relations": []} | own] * ("relations" in shown)
            for prompt in step.prompts:
                try_prompt(prompt, f"step {step.label}", samples)
            schema = step.prompt.schema["properties"]
            fields |= {name: EXAMPLES[schema[name]["type"]] for name in step.gives if name in schema}
        else:
            fields |= dict.fromkeys(step.gives, EXAMPLES["string"])
        fields |= step.example

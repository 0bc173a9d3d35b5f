"""The steps of a pass, with their prompts loaded and checked."""

from __future__ import annotations

from collections.abc import Callable

from kgqa_hpc.config import PromptConfig, RunConfig
from kgqa_hpc.engines.engine import EngineInfo
from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.module import Prompt, load_prompt
from kgqa_hpc.steps.generate import Generate
from kgqa_hpc.steps.judge import Judge
from kgqa_hpc.steps.step import Step, StepContext

_STEPS: dict[str, Callable[[Prompt, StepContext], Step]] = {"generate": Generate, "judge": Judge}


def build_chain(config: RunConfig, pass_name: str, engine: EngineInfo | None = None) -> list[Step]:
    """The steps of the pass in order. `engine` goes into the trace; without it, `set_engine` before the
    first answer.

    Raises PromptError for every reason `load_prompt` knows, and for a prompt that serves another step.
    """
    steps = next(each.steps for each in config.passes if each.name == pass_name)
    context = StepContext(config.seed, config.prompts.edge_types, engine)
    return [_STEPS[name](step_prompt(config.prompts, name), context) for name in steps]


def set_engine(chain: list[Step], engine: EngineInfo) -> None:
    """Say which engine answers from now on; steps of one chain share it."""
    for step in chain:
        step.context.engine = engine


def step_prompt(prompts: PromptConfig, step: str) -> Prompt:
    """The prompt that the configuration names for `step`."""
    name = getattr(prompts, step)
    prompt = load_prompt(name, prompts.folder)
    if prompt.step != step:
        raise PromptError(
            f"prompts.{step}: {name} is a prompt of step {prompt.step}",
            f"name one with step: {step} in its head",
        )
    return prompt

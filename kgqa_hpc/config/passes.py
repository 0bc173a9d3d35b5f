"""Passes of a run, each with its chain of steps, and the default prompts of the steps."""

from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny

from kgqa_hpc.config.variants import PASSES
from kgqa_hpc.engines.registry import EngineConfig
from kgqa_hpc.settings import Key, Name, Problems, Settings, StepSettings, section
from kgqa_hpc.steps import STEPS


class PromptConfig(Settings):
    """Settings of the prompts: names of files in prompts/ or in the user's `folder`, which takes precedence."""

    generate: Name | None = Field(None, description="Default prompt of generate steps; p5 if not set.")
    judge: Name | None = Field(None, description="Default prompt of judge steps; filter if not set.")
    domain: Name = Field(
        "biomedicine",
        description="Subject area of the prompts: biomedicine, general, or a domain of your own.",
    )
    paths = ("folder",)
    folder: str | None = Field(
        None,
        description="Folder with your own prompts and modules; they override shipped files of the same name.",
    )
    edge_types: bool | None = Field(
        None,
        description="Show edge types in prompts; default: true for sources with specific relations (hpo, obo …).",
    )


class PassConfig(Settings):
    """Settings of a pass: a chain of steps that one engine runs over all shards."""

    name: Name = Field(description="Name of the pass, and of its folder of results.")
    steps: list[SerializeAsAny[StepSettings]] = Field(min_length=1, description="Steps of an item, in order.")
    engine: EngineConfig | None = Field(None, description="Engine of this pass; default: the run's engine.")
    variant: Name | None = Field(
        None,
        description="Study variant whose items this pass processes; set automatically where `variants` change an "
        "engine or steps.",
    )


def read_passes(data: dict[str, Any], problems: Problems, base: Path | None) -> Any:
    """The passes with their steps checked; data of another form stays unchanged, and the model refuses it later."""
    passes = data.get("passes", PASSES)
    if not isinstance(passes, list):
        return passes
    return [
        {
            **pass_config,
            "steps": _steps(pass_config["steps"], data, ("passes", number, "steps"), problems, base),
        }
        if isinstance(pass_config, dict) and isinstance(pass_config.get("steps"), list)
        else pass_config
        for number, pass_config in enumerate(passes)
    ]


def asks(entry: Any) -> bool:
    """Whether any step of a pass asks an engine; True for a pass without a valid list of steps."""
    steps = entry.get("steps") if isinstance(entry, dict) else None
    if not isinstance(steps, list):
        return True
    return any(s.use in STEPS and STEPS.get(s.use).asks_with(s) for s in steps)


def _steps(
    steps: list[Any], data: dict[str, Any], key: Key, problems: Problems, base: Path | None
) -> list[Any]:
    checked = []
    for number, entry in enumerate(steps):
        entry = {"use": entry} if isinstance(entry, str) else entry
        if isinstance(entry, dict) and entry.get("use") in STEPS:
            # The default prompt: of the section `prompts:` (`prompts: {judge: …}`), or the step's own.
            use, short = entry["use"], data.get("prompts")
            named = short.get(use) if isinstance(short, dict) and use in PromptConfig.model_fields else None
            prompt = named if isinstance(named, str) else STEPS.get(use).default_prompt
            entry = {"as": use, "prompt": prompt, **entry}
        step = section(STEPS, "use", entry, (*key, number), problems, base=base)
        # A placeholder, so that the rest of the file is still checked; the problem is already in the list.
        checked.append(step or StepSettings(use="(wrong)", label=f"wrong{number}"))
    return checked

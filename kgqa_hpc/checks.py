"""What can be seen to be missing before a run is made: files, models, prompts, packages.

`problems` stop `kgqa init`, all of them at once, each with its key. `notes` are for the person: a run may well be made
on a machine that has no GPU and no engine, and be worked on by others.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.config import RunConfig
from kgqa_hpc.errors import ConfigError, KgqaError, PromptError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.chain import run_prompts

# Packages that engines and pages need, by what asks for them; they come with extras of the same purpose.
ENGINE_PACKAGES = {"cpu": "xllamacpp", "lmdeploy": "lmdeploy", "openai": "openai"}


def require_ready(config: RunConfig, where: str) -> None:
    """Raises ConfigError with every problem, one line each."""
    if found := list(problems(config)):
        raise ConfigError("\n".join(f"{where}: {line}" for line in found), "mend them and repeat")


def problems(config: RunConfig) -> Iterator[str]:
    """One sentence with its key for everything the configuration names and that is not there."""
    every = [config, *config.variant_configs().values()]
    yield from dict.fromkeys(line for one in every for line in _missing_files(one))
    yield from dict.fromkeys(line for one in every for line in _missing_models(one))
    lost = list(dict.fromkeys(line for one in every for line in _unloadable(one)))
    yield from lost
    if not lost:
        try:
            run_prompts(config)
        except PromptError as problem:
            yield problem.message


def notes(config: RunConfig) -> list[str]:
    """What works elsewhere or later, and not here and now."""
    kinds = sorted({config.engine_of(each.name).kind for each in config.passes})
    missing = [(kind, ENGINE_PACKAGES[kind]) for kind in kinds if kind in ENGINE_PACKAGES]
    found = [
        f"engine.kind {kind}: the package {package} is not installed here; workers need it (extra {kind})"
        for kind, package in missing
        if not find_spec(package)
    ]
    if not find_spec("matplotlib"):
        found.append("matplotlib is not installed here; figures are left out (extra report)")
    return found


def _missing_files(config: RunConfig) -> Iterator[str]:
    sections: list[tuple[str, Any, tuple[str, ...]]] = [
        ("anchors", config.anchors, KINDS.get(config.anchors.kind).Settings.paths)
    ]
    if config.graph is not None:
        sections.append(("graph", config.graph, (*config.graph.paths, "hydrate")))
    for name, settings, keys in sections:
        plain = settings.model_dump(mode="json")
        for key in keys:
            value = plain.get(key)
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, str) and not Path(path).exists():
                    yield f"{name}.{key}: {path} does not exist"
    for number, entry in enumerate(config.dataset.decontaminate):
        path = entry if isinstance(entry, str) else entry.path
        if not Path(path).exists():
            yield f"dataset.decontaminate.{number}: {path} does not exist"


def _missing_models(config: RunConfig) -> Iterator[str]:
    """Models that are named by a path of this file system; names of hubs and servers are left to the engine."""
    places = [("engine", config.engine)]
    places += [(f"passes.{n}.engine", each.engine) for n, each in enumerate(config.passes) if each.engine]
    for key, settings in places:
        model = getattr(settings, "model", None)
        if isinstance(model, str) and model.startswith(("/", "~")) and not Path(model).expanduser().exists():
            yield f"{key}.model: {model} does not exist"


def _unloadable(config: RunConfig) -> Iterator[str]:
    """Each prompt that cannot be loaded, with the key of the step that names it."""
    for number, each in enumerate(config.passes):
        for position, step in enumerate(each.steps):
            if step.prompt is not None:
                try:
                    load_prompt(step.prompt, config.prompts.folder, config.prompts.domain)
                except KgqaError as problem:
                    yield f"passes.{number}.steps.{position}.prompt: {problem.message}"
